"""``tidegate batch`` as people and scripts use it, with real processes that are really killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.batch_jobs import Place, assert_each_row_once, new_place
from tidegate.cli import run
from tidegate_batch.core.names import job_id_of_token

ROWS = 2000
TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Hold the model and the rows, and keep what this machine caches out of the home folder."""
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    return new_place(tmp_path, ROWS)


def submission(place: Place, *options: str) -> list[str]:
    return [
        *("batch", "submit", "--model", "double@stable", "--input", place.input),
        *("--output", place.output, "--key", "id", "--store", place.store),
        *("--client-token", TOKEN, *options),
    ]


def on(place: Place, command: str, *options: str) -> list[str]:
    return ["batch", command, JOB, "--store", place.store, *options]


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_a_job_is_run_watched_and_verified(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    local = ("--engine", "local", "--workers", "2", "--chunk-rows", "500", "--wait")
    assert run(submission(place, *local, "--json")) == 0
    done = answer(capsys)
    assert (done["job"], done["state"], done["rows"], done["parts"]) == (JOB, "published", ROWS, 4)
    assert (done["model"]["name"], done["model"]["version"]) == ("double", 1)
    assert done["rows_scored"] == ROWS
    assert done["rows_per_second"] > 0
    assert_each_row_once(place.output, ROWS)

    assert run(on(place, "status")) == 0
    assert f"job {JOB} is published: {ROWS} rows in 4 parts with double@1" in answer_text(capsys)
    assert run(on(place, "status", "--wait")) == 0
    assert run(on(place, "resume", "--wait")) == 0, "there is nothing left to do"
    capsys.readouterr()
    assert run(on(place, "verify", "--json")) == 0
    assert answer(capsys)["sound"] is True
    assert run(submission(place, *local)) == 0, "the same token finds the same job"
    assert len(list(Path(place.output).glob("part-*"))) == 4


def answer_text(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_damaged_output_is_found_by_verify(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submission(place, "--engine", "local", "--wait")) == 0
    capsys.readouterr()
    next(Path(place.output).glob("part-*")).unlink()
    assert run(on(place, "verify")) == 1
    assert "is missing" in answer_text(capsys)


def test_without_waiting_the_job_runs_on_by_itself(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submission(place, "--engine", "local", "--json")) == 0
    log = Path(answer(capsys)["log"])
    assert log.name == f"{JOB}.log"
    assert run(on(place, "status", "--wait")) == 0, log.read_text()
    assert_each_row_once(place.output, ROWS)


def test_a_background_driver_that_cannot_start_is_noticed(
    place: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/jobs").write_text("a file where a folder must be")
    assert run(submission(place, "--engine", "local")) == 2
    assert "the log" in capsys.readouterr().err
    (tmp_path / "cache/jobs").unlink()
    assert run(on(place, "resume", "--engine", "local")) == 0
    assert run(on(place, "status", "--wait")) == 0
    assert_each_row_once(place.output, ROWS)


def test_what_is_wrong_with_the_input_is_said_before_anything_starts(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submission(place, "--key", "idd", "--wait")) == 1
    message = capsys.readouterr().err
    assert "1 problem with the input, nothing was scored" in message
    assert "column 'idd'" in message
    assert "(code: input_invalid)" in message
    assert f"Once what follows is put right, go on with 'tidegate batch resume {JOB}" in message
    assert run(on(place, "status")) == 1, "the job failed, and says so"
    message = answer_text(capsys)
    assert "column 'idd'" in message
    assert f"Once that is put right, go on with: tidegate batch resume {JOB}" in message


def test_a_night_whose_job_is_not_queued_again_is_told_so(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(submission(place, "--queue")) == 0
    assert run(on(place, "cancel")) == 0
    capsys.readouterr()
    assert run(submission(place, "--queue")) == 1
    told = capsys.readouterr().out
    assert "is cancelled" in told
    assert "jobs serve" not in told


@pytest.mark.parametrize("name", ["*/../x.parquet", ".tidegate-x.parquet", "a\\b.parquet"])
def test_an_input_that_no_store_can_hold_is_refused_at_once(
    place: Place, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(submission(place, "--input", f"{place.input}/{name}", "--queue")) == 2
    assert "names nothing that a store can hold" in capsys.readouterr().err
    assert run(on(place, "status")) == 1, "no job was made"


def test_a_model_that_is_not_there_leaves_no_folder_behind(
    place: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    elsewhere = tmp_path / "no-store"
    assert run(submission(place, "--store", str(elsewhere))) == 1
    assert "(code: model_not_found)" in capsys.readouterr().err
    assert not elsewhere.exists()
    assert not Path(place.output).exists()


@pytest.mark.field_fault("B-23")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["batch", "submit", "--split", "8"], "No such option"),
        (["batch", "submit", "--engine", "spark"], "'spark' is not one of 'ray', 'local'"),
        (["batch", "submit", "--workers", "0"], "0 is not in the range x>=1"),
        (["batch", "status", "../../etc"], "is no job id"),
    ],
)
def test_an_option_that_cannot_be_meant_is_an_error(
    place: Place, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_job_of_another_store_is_not_found(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(on(place, "status")) == 1
    assert f"no job {JOB} in {place.store}" in capsys.readouterr().err


@contextmanager
def running(place: Place, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a driver of many small chunks, and wait until it has committed the first."""
    command = [sys.executable, "-c", "from tidegate.cli import main; main()"]
    command += submission(place, "--chunk-rows", "5", "--wait", *options)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or commits(place) > 0)
            assert process.poll() is None, process.stderr and process.stderr.read()
            yield process
        finally:
            process.kill()


def commits(place: Place) -> int:
    return len(list(Path(place.store, "jobs", JOB, "commits").glob("*.json")))


def wait_until(is_so: Callable[[], object]) -> None:
    """Look again and again; nothing tells a stranger when a file appears or a process ends."""
    pause = threading.Event()
    for _ in range(6000):
        if is_so():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen within a minute")


def descendants(pid: int) -> list[int]:
    """Return all processes below one, whatever their process group."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    below, found = [pid], []
    while below:
        below = [child for parent in below for child in children.get(parent, [])]
        found += below
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def is_an_agent_of_ray(pid: int) -> bool:
    return "Agent" in command_of(pid)


def folders_of_ray(pid: int) -> list[str]:
    return re.findall(r"=(/\S*?/tg-\w+)/session", command_of(pid))


@pytest.mark.field_fault("B-14", "B-15")
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_driver_leaves_no_process_and_a_job_that_a_resume_finishes(
    place: Place, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(place, "--engine", engine) as driver:
        processes = descendants(driver.pid)
        folders = {folder for pid in processes for folder in folders_of_ray(pid)}
        driver.kill()
        driver.wait()
        assert len(processes) >= 2
        for pid in processes:
            if is_an_agent_of_ray(pid):  # they leave by themselves, but a minute later
                os.kill(pid, signal.SIGKILL)
        for folder in folders:  # of Ray's own logs: small, and nobody is left to remove it
            shutil.rmtree(folder)
        wait_until(lambda: not any(is_alive(pid) for pid in processes))
    done = commits(place)
    assert 0 < done < ROWS / 5
    assert run(on(place, "status")) == 1
    assert "which has ended" in answer_text(capsys)
    assert run(on(place, "resume", "--engine", "local", "--wait", "--json")) == 0
    assert answer(capsys)["rows_scored"] == ROWS - 5 * done
    assert_each_row_once(place.output, ROWS)
    assert run(on(place, "verify")) == 0


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name
)
def test_an_interrupted_driver_says_how_to_go_on_and_leaves_a_job_that_can(
    place: Place, how: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(place, "--engine", "local") as driver:
        processes = descendants(driver.pid)
        os.kill(driver.pid, how)
        _, told = driver.communicate()
        assert driver.returncode == 130
        assert f"go on with 'tidegate batch resume {JOB} --wait'" in told
        assert "Traceback" not in told
        wait_until(lambda: not any(is_alive(pid) for pid in processes))
    assert run(on(place, "status", "--json")) == 1
    status = answer(capsys)
    assert (status["state"], status["failure"]["code"]) == ("cancelled", "interrupted")
    assert run(on(place, "resume", "--engine", "local", "--wait")) == 0
    assert_each_row_once(place.output, ROWS)


@pytest.mark.field_fault("B-01")
def test_a_killed_worker_is_replaced_and_the_job_ends_well(place: Place) -> None:
    with running(place, "--engine", "local", "--workers", "2") as driver:
        os.kill(descendants(driver.pid)[0], signal.SIGKILL)
        _, told = driver.communicate()
        assert driver.returncode == 0, told
    assert "worker_lost" in told
    assert_each_row_once(place.output, ROWS)


def test_a_changed_model_is_told_by_its_own_code_and_no_resume_forgets_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(place.store, "models/double/1/model.onnx")
    model.write_bytes(model.read_bytes() + b"\0")
    assert run(submission(place, "--engine", "local", "--workers", "1", "--wait")) == 1
    assert "(code: digest_mismatch)" in capsys.readouterr().err
    next(Path(place.input).glob("*.parquet")).unlink()
    assert run(on(place, "resume", "--wait")) == 1
    assert "(code: conflict)" in capsys.readouterr().err
    assert run(on(place, "status")) == 1
    assert "(code: digest_mismatch)" in answer_text(capsys)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_files_in_the_current_folder_are_never_taken_for_modules(
    place: Place, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("onnxruntime", "click", "numpy", "psutil"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('a file of the user's')")
    monkeypatch.chdir(tmp_path)
    assert run(submission(place, "--engine", engine, "--workers", "1")) == 0
    log = tmp_path / "cache/jobs" / f"{JOB}.log"
    assert run(on(place, "status", "--wait")) == 0, log.read_text()
    assert_each_row_once(place.output, ROWS)


def test_a_driver_in_the_background_reads_the_same_settings(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("[batch]\nno_commit_limit_ms = 1\nworkers = 1\n")
    run(submission(place, "--engine", "local", "--config", "mine.toml"))  # may have ended by now
    assert run(on(place, "status", "--wait")) == 1
    assert "no chunk was committed for 0.001 s" in (tmp_path / f"cache/jobs/{JOB}.log").read_text()


def test_files_of_a_folder_that_are_not_read_are_told(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("more.PARQUET", "readme.txt", "_side.txt"):
        Path(place.input, name).write_bytes(b"")
    assert run(submission(place, "--engine", "local", "--workers", "1", "--wait")) == 0
    told = capsys.readouterr().err
    assert "files_not_read" in told
    assert '"files": 2' in told
    assert "more.PARQUET" in told
