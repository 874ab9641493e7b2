"""The same line typed again: it goes on with its job, unless that was stopped on purpose."""

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import (
    Place,
    SilentDisplay,
    assert_each_row_once,
    drive,
    inline_engine,
    new_place,
    parts_with,
    table,
)
from tidegate.cli import run
from tidegate.errors import JobError
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.errors import ChunkFailedError, InputInvalidError, TooManyBadRowsError
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.main.session import Session, run_or_explain
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.queueing import waiting_jobs
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.watching import watch

ROWS = 60
TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    return new_place(tmp_path, ROWS, row_group_rows=10)


def made(place: Place) -> JobRecord:
    asked = place.submission(chunk_rows=10, client_token=TOKEN)
    return submit(asked, store_url=place.store, parts=parts_with())


def stopped(place: Place, cache: Path, reason: BaseException) -> JobRecord:
    """Leave a job that committed two of its six chunks."""
    parts, record = parts_with(), made(place)
    with pytest.raises(type(reason)):
        drive(record, parts, cache, engine=inline_engine(parts, {2: reason}))
    return record


def a_line(place: Place) -> list[str]:
    return [
        *("batch", "submit", "--model", "double@stable", "--input", place.input),
        *("--output", place.output, "--key", "id", "--store", place.store),
        *("--client-token", TOKEN, "--chunk-rows", "10"),
    ]


def the_same_line(place: Place, *options: str) -> int:
    return run([*a_line(place), "--wait", "--engine", "local", *options])


def write_bad_rows(place: Place) -> None:
    rows = table(range(ROWS))
    bad = pa.array([float("nan")] * ROWS)
    pq.write_table(rows.set_column(1, "a", bad), f"{place.input}/rows-00.parquet")


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), JobError("no luck")], ids=repr)
def test_the_same_line_finishes_a_job_that_was_interrupted_or_failed(
    place: Place, tmp_path: Path, reason: BaseException
) -> None:
    stopped(place, tmp_path / "cache", reason)
    assert the_same_line(place, "--workers", "1") == 0
    assert_each_row_once(place.output, ROWS)


def test_the_same_line_puts_a_job_that_was_interrupted_into_the_queue_again(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = stopped(place, tmp_path / "cache", KeyboardInterrupt())
    assert run([*a_line(place), "--queue"]) == 0
    assert "It waits for 'tidegate jobs serve'" in capsys.readouterr().out
    assert [waiting.job for waiting in waiting_jobs(record.store)] == [JOB]


def test_the_same_line_leaves_a_job_alone_that_a_person_has_stopped(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    cancel(made(place), parts_with(), by="anna")
    assert the_same_line(place) == 1
    told = capsys.readouterr().out
    assert "cancelled by anna" in told
    assert f"Go on with: tidegate batch resume {JOB} --wait" in told


def test_the_same_line_goes_on_once_the_input_is_corrected(place: Place, tmp_path: Path) -> None:
    file = Path(place.input, "rows-00.parquet")
    whole = pq.read_table(file)
    pq.write_table(whole.drop(["a"]), file)
    with pytest.raises(InputInvalidError):
        drive(made(place), parts_with(), tmp_path / "cache")
    pq.write_table(whole, file)
    assert the_same_line(place, "--workers", "1") == 0
    assert_each_row_once(place.output, ROWS)


def test_no_resume_is_recommended_that_would_fail_again(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bad_rows(place)
    with pytest.raises(TooManyBadRowsError):
        drive(made(place), parts_with(), tmp_path / "cache")
    store = ("--store", place.store)
    for line in (
        ["batch", "status", JOB, *store],
        ["batch", "retry-dlq", JOB, "--output", f"{place.output}-2", *store],
    ):
        assert run(line) == 1
        ended = capsys.readouterr()
        told = ended.out + ended.err
        assert "a resume would fail again" in told.lower()
        assert "batch resume" not in told
    assert the_same_line(place) == 1
    assert f"tidegate batch dead-letters {JOB}" in capsys.readouterr().out


def test_an_input_that_has_changed_needs_a_new_job(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped(place, tmp_path / "cache", KeyboardInterrupt())
    write_bad_rows(place)
    assert the_same_line(place) == 1
    capsys.readouterr()
    assert run(["batch", "status", JOB, "--store", place.store]) == 1
    assert "submit a new job, under another client token" in capsys.readouterr().out


class ChangedMeanwhile(Session):
    """Drives a job whose input is written to while it is read."""

    def run(self, record: JobRecord) -> NoReturn:
        raise ChunkFailedError.of_worker("rows.parquet was changed", code="input_changed")


def test_no_resume_is_recommended_when_an_input_changes_under_the_driver(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChunkFailedError):
        run_or_explain(ChangedMeanwhile({"store": place.store}, config=None), made(place))
    assert "resume" not in capsys.readouterr().err


class WorkersDisplay(SilentDisplay):
    """Remembers who was said to work, and how fast."""

    def __init__(self) -> None:
        super().__init__()
        self.pace: list[tuple[int | None, Outlook | None]] = []

    def progress(
        self,
        statistics: QueueStatistics,
        *,
        workers: int | None,
        outlook: Outlook | None = None,
        rows_dlq: int = 0,
    ) -> None:
        self.pace.append((workers, outlook))


def test_no_speed_is_shown_of_a_job_that_nobody_works_on(place: Place, tmp_path: Path) -> None:
    record = made(place)
    drive(record, parts_with(), tmp_path / "cache")
    display = WorkersDisplay()
    watch(record, parts=parts_with(), display=display)
    assert display.pace == [(None, None)]


def test_no_speed_is_told_of_a_job_that_was_left_alone(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = stopped(place, tmp_path / "cache", SystemExit("without a word"))
    record.change_state(lambda now: now.driven_by(None))
    assert run(["batch", "status", JOB, "--store", place.store]) == 1
    told = capsys.readouterr().out
    assert "is running: 20 of 60 rows" in told
    assert "rows/s" not in told
