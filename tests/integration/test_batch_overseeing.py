"""``tidegate batch list|watch|cancel|gc`` as people and scripts use them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    new_place,
    parts_with,
    run_job,
    stopped_job,
)
from tidegate.cli import run
from tidegate.errors import JobError
from tidegate.objects.opening import open_store
from tidegate_batch.core.names import JobId, attempts_prefix, job_id_of_token
from tidegate_batch.pipeline.driving import tidy_if_published
from tidegate_batch.pipeline.submission import submit

ROWS = 1000
TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    return new_place(tmp_path, ROWS)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_jobs_are_listed_with_the_newest_first(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = stopped_job(place, cache, JobError("failed on purpose"))
    second = run_job(place, cache)  # takes the output over
    third = submit(
        place.submission(output=f"{place.output}-2"), store_url=place.store, parts=parts_with()
    )
    assert run(["batch", "list", "--store", place.store]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.split() == ["job", "model", "state", "rows", "age", "output"]
    assert [line.split()[0] for line in lines] == [third.job, second.job, first.job]
    assert "submitted (left alone)" in lines[0]
    assert re.search(rf"double@1 +published +{ROWS}/{ROWS} +\d s +{place.output}", lines[1])
    assert re.search(rf"superseded +20/{ROWS}", lines[2])


def test_a_list_can_be_narrowed_and_says_what_it_leaves_out(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place_number in range(3):
        run_job(place, cache, output=f"{place.output}-{place_number}")
    assert run(["batch", "list", "--store", place.store, "--limit", "1"]) == 0
    assert "… and 2 older jobs: --limit 3 shows all" in capsys.readouterr().out
    assert run(["batch", "list", "--store", place.store, "--state", "failed"]) == 0
    assert capsys.readouterr().out == f"no jobs of failed in {place.store}\n"
    assert run(["batch", "list", "--store", place.store, "--state", "published", "--json"]) == 0
    listed = answer(capsys)
    assert listed["known"] == len(listed["jobs"]) == 3
    assert {job["rows_committed"] for job in listed["jobs"]} == {ROWS}


def test_a_damaged_record_does_not_hide_the_others(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(place, cache)
    Path(place.store, "jobs/0123456789abcdef").mkdir()
    Path(place.store, "jobs/0123456789abcdef/spec.json").write_text("{")
    Path(place.store, "jobs/readme.txt").write_text("nothing of ours")
    assert run(["batch", "list", "--store", place.store, "--json"]) == 0
    assert len(answer(capsys)["jobs"]) == 1


def submission(place: Place, *options: str) -> list[str]:
    return [
        *("batch", "submit", "--model", "double@stable", "--input", place.input, "--key", "id"),
        *("--output", place.output, "--store", place.store, "--client-token", TOKEN),
        *("--engine", "local", "--workers", "2", "--chunk-rows", "1", *options),
    ]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from tidegate.cli import main; main()", *arguments]


@contextmanager
def running(place: Place) -> Iterator[subprocess.Popen[str]]:
    """Start a driver of a great many chunks, and wait until it has committed the first."""
    with subprocess.Popen(
        command(*submission(place, "--wait")), stderr=subprocess.PIPE, text=True
    ) as process:
        commits = Path(place.store, "jobs", JOB, "commits")
        try:
            wait_until(lambda: process.poll() is not None or any(commits.glob("*.json")))
            assert process.poll() is None, process.stderr and process.stderr.read()
            yield process
        finally:
            process.kill()


def wait_until(is_so: Callable[[], object]) -> None:
    """Look again and again; nothing tells a stranger when a file appears."""
    pause = threading.Event()
    for _ in range(6000):
        if is_so():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen within a minute")


def test_a_cancelled_job_stops_its_driver_and_can_go_on(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(place) as driver:
        assert run(["batch", "cancel", JOB, "--store", place.store, "--json"]) == 0
        cancelled = answer(capsys)
        _, told = driver.communicate()
        assert driver.returncode == 1
    assert (cancelled["state"], cancelled["failure"]["code"]) == ("cancelled", "cancelled")
    assert f"job {JOB} was cancelled, and this driver has stopped" in told
    assert told.count("resume") == 1, "once is enough"
    assert "Traceback" not in told
    assert run(["batch", "watch", JOB, "--store", place.store]) == 1
    assert "cancelled by" in capsys.readouterr().out
    assert run(["batch", "resume", JOB, "--store", place.store, "--engine", "local", "--wait"]) == 0
    assert_each_row_once(place.output, ROWS)


def test_what_is_published_cannot_be_cancelled(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = run_job(place, cache)
    assert run(["batch", "cancel", record.job, "--store", place.store]) == 1
    assert "nothing is left to cancel (code: conflict)" in capsys.readouterr().err


def test_watching_in_a_terminal_moves_a_bar_and_ends_with_the_job(place: Place) -> None:
    with running(place) as driver:
        pid, terminal = pty.fork()
        if pid == 0:
            watching = command("batch", "watch", JOB, "--store", place.store)
            os.execvpe(watching[0], watching, {**os.environ, "COLUMNS": "100", "TERM": "xterm"})
        seen = read_all(terminal)
        _, status = os.waitpid(pid, 0)
        driver.communicate()
    assert os.waitstatus_to_exitcode(status) == 0, seen
    assert "rows/s" in seen
    assert " left" in seen
    assert "2 workers" in seen
    assert f"job {JOB} is published: {ROWS} rows" in seen


def read_all(terminal: int) -> str:
    """Read what a process writes to its terminal until it ends, which Linux calls an error."""
    seen = b""
    while True:
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            os.close(terminal)
            return seen.decode()


def test_a_watcher_who_leaves_changes_nothing(place: Place) -> None:
    with running(place) as driver:
        with subprocess.Popen(
            command("batch", "watch", JOB, "--store", place.store), stderr=subprocess.PIPE
        ) as watcher:
            assert watcher.stderr is not None
            assert b"rows/s" in watcher.stderr.readline()
            watcher.send_signal(signal.SIGINT)
            watcher.communicate()
        assert watcher.returncode == 130
        driver.communicate()
        assert driver.returncode == 0


def leave_attempt(output: str, job: str) -> Path:
    """Write what a zombie would have written."""
    key = f"{attempts_prefix(JobId(job))}000000.{'0' * 32}.attempt"
    open_store(output).put_if_absent(key, b"rows of a zombie")
    return Path(output, key)


def test_leftovers_of_jobs_that_are_final_are_removed_and_nothing_else(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    superseded = stopped_job(place, cache, JobError("failed on purpose"))
    published = run_job(place, cache)
    live = stopped_job(_elsewhere(place), cache, JobError("failed on purpose"))
    loser = leave_attempt(place.output, published.job)
    zombie = leave_attempt(place.output, superseded.job)
    wanted = leave_attempt(f"{place.output}-2", live.job)
    before = sorted(Path(place.output).glob("*"))

    assert run(["batch", "gc", "--store", place.store, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "2 objects of 0 kB would be removed" in told
    assert f"{loser}" in told
    assert loser.exists()

    assert run(["batch", "gc", "--store", place.store, "--json"]) == 0
    removed = answer(capsys)
    assert {entry["object"] for entry in removed["objects"]} == {str(loser), str(zombie)}
    assert removed["bytes"] == 2 * len(b"rows of a zombie")
    assert not loser.exists()
    assert not zombie.exists()
    assert wanted.exists(), "this job can still go on"
    assert sorted(Path(place.output).glob("*")) == before
    assert run(["batch", "verify", published.job, "--store", place.store]) == 0
    assert run(["batch", "gc", "--store", place.store]) == 0
    assert "nothing is left over" in capsys.readouterr().out


def test_what_the_manifest_names_is_never_a_leftover(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = run_job(place, cache)
    winner = leave_attempt(place.output, published.job)
    manifest = Path(place.output, "_MANIFEST.json")
    content = json.loads(manifest.read_text())
    content["parts"][0]["key"] = winner.relative_to(place.output).as_posix()
    manifest.write_text(json.dumps(content))
    assert run(["batch", "gc", "--store", place.store]) == 0
    assert winner.exists()


def _elsewhere(place: Place) -> Place:
    return Place(store=place.store, input=place.input, output=f"{place.output}-2")


def test_an_output_without_its_manifest_is_left_alone(
    place: Place, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = run_job(place, cache)
    loser = leave_attempt(place.output, published.job)
    Path(place.output, "_MANIFEST.json").unlink()
    assert run(["batch", "gc", "--store", place.store]) == 0
    assert loser.exists(), "nobody can tell any more what it is"
    capsys.readouterr()
    Path(place.output, "_MANIFEST.json").write_text("{")
    assert run(["batch", "gc", "--store", place.store, "--json"]) == 1
    (unseen,) = answer(capsys)["unseen"]
    assert published.job in unseen


def test_a_resume_removes_nothing_of_an_output_without_its_manifest(
    place: Place, cache: Path
) -> None:
    record = run_job(place, cache)
    loser = leave_attempt(place.output, record.job)
    manifest = Path(place.output, "_MANIFEST.json")
    body = manifest.read_bytes()
    manifest.unlink()
    assert tidy_if_published(record, parts_with())
    assert loser.exists()
    manifest.write_bytes(body)
    assert tidy_if_published(record, parts_with())
    assert not loser.exists()
