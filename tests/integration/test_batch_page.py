"""What docs/batch.md says can be typed, and is so."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.project import ROOT
from tidegate.cli import run
from tidegate.keys.access import ANYBODY, Access
from tidegate_batch.api.app import build_app
from tidegate_batch.core.states import State
from tidegate_batch.main.session import Session
from tidegate_batch.main.stored_jobs import StoredJobs
from tidegate_batch.pipeline.notifying import sign

PAGE = (ROOT / "docs/batch.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs/errors.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "TIDEGATE_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_nightly_job_is_made_from_nothing_as_the_page_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "nightly.toml").write_text(blocks("toml")[0])
    job = ""
    *typed, over_http = commands()
    for command in typed:
        ended = shell(command.replace("JOB", job), tmp_path)
        assert ended.returncode == 0, ended.stderr
        found = re.match(r"job ([0-9a-f]{16}) is published: 569 rows", ended.stdout)
        job = found[1] if found else job
    assert job
    assert "each row once" in ended.stdout
    assert len(list(tmp_path.glob("scores/date=20*/_SUCCESS"))) == 1
    assert_a_job_is_taken_over_http(over_http, tmp_path)


def test_the_description_of_the_page_is_taken_over_http_and_by_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "nightly.toml").write_text(blocks("toml")[0])
    assert shell(commands()[0], tmp_path).returncode == 0
    jobs = StoredJobs(Session({}, config=None), roots=())
    answer, is_new = jobs.submit(tomllib.loads(blocks("toml")[0]), ANYBODY)
    assert (answer["state"], is_new) == ("submitted", True)
    assert run(["batch", "submit", "--spec", "nightly.toml", "--queue"]) == 0


def test_a_key_is_made_as_the_page_says(tmp_path: Path) -> None:
    typed = re.findall(r"`(tidegate keys create [^`]+)`", PAGE)
    assert [shell(command, tmp_path).returncode for command in typed] == [0]


def assert_a_job_is_taken_over_http(command: str, folder: Path) -> None:
    serve = [sys.executable, "-c", "from tidegate.cli import main; main()", "jobs", "serve"]
    with subprocess.Popen(
        [*serve, "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stderr is not None
            found = re.search(r'"port": (\d+)', service.stderr.readline())
            assert found is not None
            ended = shell(command.replace(":8003", f":{found[1]}"), folder)
            assert '"state":"submitted"' in ended.stdout, ended.stdout + ended.stderr
            taken = re.search(r'"job":"([0-9a-f]{16})"', ended.stdout)
            assert taken is not None
            stopped = shell(f"tidegate batch cancel {taken[1]}", folder)
            assert stopped.returncode == 0, stopped.stderr
            service.send_signal(signal.SIGTERM)
            service.communicate()
        finally:
            service.kill()


def test_every_state_has_a_row_for_whoever_is_called_at_night() -> None:
    told = set(re.findall(r"^\| `(\w+)[`. ]", PAGE, flags=re.MULTILINE))
    assert {state.value for state in State} <= told


def test_every_code_that_is_told_is_explained() -> None:
    table = PAGE.partition("| code of a job that has stopped |")[2].partition("\n\n")[0]
    codes = re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE)
    assert len(codes) > 8
    assert [code for code in codes if f"| `{code}` |" not in ERRORS] == []


def test_the_table_of_routes_is_that_of_the_application(tmp_path: Path) -> None:
    session = Session({"store": str(tmp_path / "store")}, config=None)
    guard = build_app(StoredJobs(session, roots=()), Access())
    document = guard._app.openapi()  # type: ignore[attr-defined] # the application behind the guard
    served = {
        f"{method.upper()} {path}" for path, route in document["paths"].items() for method in route
    }
    told = set(re.findall(r"^\| `((?:GET|POST) \S+)` \|", PAGE, flags=re.MULTILINE))
    assert served == told


@pytest.mark.parametrize(
    ("age_s", "secret", "is_ours"), [(0, b"s", True), (400, b"s", False), (0, b"x", False)]
)
def test_the_check_of_a_signature_works(age_s: int, secret: bytes, is_ours: bool) -> None:
    names: dict[str, object] = {}
    exec(blocks("python")[0], names)
    check = names["is_ours"]
    assert callable(check)
    at_s = int(time.clock_gettime(time.CLOCK_REALTIME)) - age_s
    assert check(b"{}", sign(b"{}", secret=secret, at_s=at_s), b"s") is is_ours
