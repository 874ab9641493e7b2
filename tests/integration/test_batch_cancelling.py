"""A job is stopped on purpose, before any reader has seen a row, and can go on later."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.fixtures.batch_jobs import (
    MINUTE_NS,
    Place,
    SilentDisplay,
    assert_each_row_once,
    crew_with,
    drive,
    inline_engine,
    new_place,
    parts_with,
    run_job,
    stopped_job,
    write_rows,
)
from tidegate.errors import JobError
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import (
    JobCancelledError,
    JobConflictError,
    JobNotFoundError,
    JobPublishedError,
)
from tidegate_batch.core.names import JobId
from tidegate_batch.core.states import Event, State
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.driving import JobDriver
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import Seat, take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import FoundInput, InputShape
from tidegate_batch.sources.files import FileSource

ROWS = 60


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def submitted(place: Place) -> JobRecord:
    return submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts_with())


def state_of(record: JobRecord) -> State:
    state = record.state()
    assert state is not None
    return state.state


def test_a_job_that_nobody_has_begun_is_cancelled_and_can_be_resumed(
    place: Place, cache: Path
) -> None:
    record, parts = submitted(place), parts_with()
    assert record.state() is None
    cancelled = cancel(record, parts, by="a test")
    assert cancelled.state is State.CANCELLED
    assert cancelled.failure is not None
    assert cancelled.failure.message == "cancelled by a test"
    drive(record, parts, cache)
    assert_each_row_once(place.output, ROWS)


def test_cancelling_again_changes_nothing(place: Place) -> None:
    record = submitted(place)
    first = cancel(record, parts_with(), by="a test")
    assert cancel(record, parts_with(), by="somebody else") == first


def test_a_driver_at_work_stops_when_its_job_is_cancelled(place: Place, cache: Path) -> None:
    record, parts = submitted(place), parts_with()
    engine = inline_engine(parts)
    seat = take_seat(record, this_process(), parts)

    class Cancelling(SilentDisplay):
        def stage(self, text: str) -> None:
            if text.startswith("starting"):
                cancel(record, parts, by="a test")

    with pytest.raises(JobCancelledError, match=f"resume {record.job}"):
        JobDriver(seat, parts=parts, display=Cancelling()).run(crew_with(engine, cache))
    assert state_of(record) is State.CANCELLED
    drive(record, parts, cache)
    assert_each_row_once(place.output, ROWS)


def test_a_driver_notices_long_before_its_next_renewal(place: Place) -> None:
    record, parts = submitted(place), parts_with()
    seat = take_seat(record, this_process(), parts)
    with seat.renewed(every_ns=10 * MINUTE_NS):
        cancel(record, parts, by="a test")
        wait_until_noticed(seat)


class SlowToCount(FileSource):
    """Lets the job be cancelled while it looks into the first file."""

    def __init__(self, cancel_now: Callable[[], None]) -> None:
        super().__init__(open_store)
        self._cancel_now = cancel_now
        self._one_at_a_time = threading.Lock()
        self.looked_at = 0

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        with self._one_at_a_time:
            self.looked_at += 1
            if self.looked_at == 1:
                self._cancel_now()
            return super().describe(found, wanted=wanted)


def test_a_driver_that_still_looks_at_the_inputs_stops_when_its_job_is_cancelled(
    place: Place, cache: Path
) -> None:
    write_rows(Path(place.input), *[1] * 100)
    record = submitted(place)
    seat = take_seat(record, this_process(), parts_with())

    def cancel_now() -> None:
        cancel(record, parts_with(), by="a test")
        wait_until_noticed(seat)

    parts = dataclasses.replace(parts_with(), source=(source := SlowToCount(cancel_now)))
    with pytest.raises(JobCancelledError, match=f"resume {record.job}"):
        JobDriver(seat, parts=parts, display=SilentDisplay()).prepare()
    assert source.looked_at < 100
    assert record.plan() is None
    assert state_of(record) is State.CANCELLED


def wait_until_noticed(seat: Seat) -> None:
    pause = threading.Event()
    for _ in range(500):
        try:
            seat.check()
        except JobCancelledError:
            return
        pause.wait(0.01)
    pytest.fail("the driver would have gone on")


def test_a_job_that_is_being_published_is_completed(place: Place, cache: Path) -> None:
    record, parts = submitted(place), parts_with()
    seat = take_seat(record, this_process(), parts)
    for event in (Event.PLANNED, Event.STARTED, Event.ALL_COMMITTED):
        seat.move(event)
    with pytest.raises(JobConflictError, match=f"it is completed.*batch status {record.job}"):
        cancel(record, parts, by="a test")
    seat.leave()
    with pytest.raises(JobConflictError, match=f"Its driver is gone.*batch resume {record.job}"):
        cancel(record, parts, by="a test")
    assert state_of(record) is State.PUBLISHING


def test_what_has_ended_is_not_cancelled(place: Place, cache: Path) -> None:
    failed = stopped_job(place, cache, JobError("failed on purpose"))
    with pytest.raises(JobConflictError, match="is failed"):
        cancel(failed, parts_with(), by="a test")
    published = run_job(place, cache)
    with pytest.raises(JobPublishedError):
        cancel(published, parts_with(), by="a test")
    with pytest.raises(JobConflictError, match="is superseded"):
        cancel(failed, parts_with(), by="a test")


def test_a_job_that_is_not_there_is_not_made_by_cancelling_it(place: Place) -> None:
    record = JobRecord(submitted(place).store, JobId("0123456789abcdef"))
    with pytest.raises(JobNotFoundError):
        cancel(record, parts_with(), by="a test")
    assert record.state() is None
