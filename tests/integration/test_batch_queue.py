"""The queue of a store is worked off by whichever service looks after it, job by job."""

from pathlib import Path

import pytest

from tests.fixtures.batch_jobs import (
    Place,
    SteppingClock,
    abandon,
    drive,
    new_place,
    parts_with,
    run_job,
    stopped_job,
)
from tidegate.errors import JobError
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.errors import JobConflictError, JobDrivenError, JobPublishedError
from tidegate_batch.core.lease import LEASE_NS
from tidegate_batch.core.names import JobId
from tidegate_batch.core.wishes import Wishes
from tidegate_batch.main.running import QueueRunner
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.queueing import enqueue, waiting_jobs
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, 60, row_group_rows=10)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class Service:
    """A queue runner whose drivers are numbers, and end when they are told to."""

    def __init__(self, place: Place, *, concurrent: int = 1) -> None:
        self.clock = SteppingClock()
        self.parts = parts_with(clock=self.clock)
        self.started: list[JobId] = []
        self.over: set[int] = set()
        self.left: list[JobId] = []
        self.store = self.parts.stores(place.store)
        self.runner = QueueRunner(
            self.store,
            self.parts,
            start=self._start,
            concurrent=concurrent,
            on_over=self.left.append,
            is_over=self.over.__contains__,
        )

    def _start(self, job: JobId) -> int:
        self.started.append(job)
        return len(self.started) - 1

    def look(self, *, after_s: int = 0) -> list[JobId]:
        """Let it look, and return what it has begun so far."""
        self.clock.advance(after_s * NS_PER_SECOND)
        self.runner.look()
        return self.started


def queued(place: Place, name: str, *, priority: int = 2) -> JobRecord:
    parts = parts_with()
    asked = place.submission(output=f"{place.output}-{name}", wishes=Wishes(priority=priority))
    record = submit(asked, store_url=place.store, parts=parts)
    enqueue(record, parts)
    return record


def test_one_job_at_a_time_is_begun_the_most_urgent_first(place: Place, cache: Path) -> None:
    service = Service(place)
    normal = queued(place, "a")
    urgent = queued(place, "b", priority=1)
    assert service.look() == [urgent.job]
    assert service.look(after_s=1) == [urgent.job], "the other waits"
    drive(urgent, service.parts, cache)
    service.over.add(0)
    assert service.look() == [urgent.job, normal.job]
    assert [waiting.job for waiting in waiting_jobs(service.store)] == [normal.job]


def test_as_many_jobs_as_are_allowed_run_at_once(place: Place) -> None:
    service = Service(place, concurrent=2)
    jobs = [queued(place, name).job for name in "abc"]
    assert service.look() == jobs[:2]


@pytest.mark.field_fault("B-14")
def test_a_job_whose_driver_fell_silent_is_begun_again(place: Place) -> None:
    service = Service(place)
    record = queued(place, "a")
    abandon(take_seat(record, this_process(), parts_with()))
    assert service.look() == []
    assert service.look(after_s=LEASE_NS // NS_PER_SECOND - 1) == []
    assert service.look(after_s=1) == [record.job]


def test_a_driver_that_dies_at_once_is_started_again_later_and_later(place: Place) -> None:
    service = Service(place)
    job = queued(place, "a").job
    service.over.update(range(10))
    assert service.look() == [job]
    assert service.look(after_s=1) == [job]
    assert service.look(after_s=1) == [job] * 2
    assert service.look(after_s=3) == [job] * 2
    assert service.look(after_s=1) == [job] * 3


def test_another_service_goes_on_where_one_ended(place: Place, cache: Path) -> None:
    record = queued(place, "a")
    assert Service(place).look() == [record.job]
    assert Service(place).look() == [record.job], "nobody drives it yet"
    drive(record, parts_with(), cache)
    last = Service(place)
    assert last.look() == []
    assert waiting_jobs(last.store) == []


def test_a_job_that_is_cancelled_while_it_waits_is_never_begun(place: Place) -> None:
    service, record = Service(place), queued(place, "a")
    cancel(record, service.parts, by="a test")
    assert service.look() == []
    assert waiting_jobs(service.store) == []
    assert service.left == [record.job]


def test_a_job_that_was_stopped_is_queued_to_be_resumed(place: Place, cache: Path) -> None:
    service = Service(place)
    record = stopped_job(place, cache, JobError("failed on purpose"))
    enqueue(record, service.parts)
    enqueue(record, service.parts)
    assert service.look() == [record.job]
    drive(record, service.parts, cache)
    service.over.add(0)
    service.look()
    assert waiting_jobs(service.store) == []


def test_what_is_over_or_at_work_is_not_queued(place: Place, cache: Path) -> None:
    parts = parts_with()
    failed = stopped_job(place, cache, JobError("failed on purpose"))
    published = run_job(place, cache)
    with pytest.raises(JobPublishedError):
        enqueue(published, parts)
    with pytest.raises(JobConflictError, match="superseded"):
        enqueue(failed, parts)
    driven = queued(place, "a")
    take_seat(driven, this_process(), parts)
    with pytest.raises(JobDrivenError):
        enqueue(driven, parts)


def test_a_damaged_place_in_the_queue_stops_nobody_else(place: Place) -> None:
    service = Service(place)
    Path(place.store, "queue").mkdir()
    Path(place.store, "queue/0123456789abcdef.json").write_text("{")
    record = queued(place, "a")
    Path(place.store, "jobs", record.job, "state.json").write_text("{")
    other = queued(place, "b")
    assert service.look() == [other.job]
