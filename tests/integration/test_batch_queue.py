"""The queue of a store is worked off by whichever service looks after it, job by job."""

from pathlib import Path

import pytest

from tests.fixtures.batch_jobs import (
    Place,
    SteppingClock,
    abandon,
    drive,
    inline_engine,
    new_place,
    parts_with,
    run_job,
    stopped_job,
)
from tidegate.errors import JobError, SettingError
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.errors import (
    CommittedDataMissingError,
    JobConflictError,
    JobPublishedError,
)
from tidegate_batch.core.lease import LEASE_NS
from tidegate_batch.core.names import JobId
from tidegate_batch.core.records import Driver
from tidegate_batch.core.states import Event, State
from tidegate_batch.core.waiting import Turn, decide
from tidegate_batch.core.wishes import Wishes
from tidegate_batch.main.running import QueueRunner
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.queueing import enqueue, leave_queue, waiting_jobs
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
        self.cannot_start: set[JobId] = set()
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
        if job in self.cannot_start:
            raise SettingError("its log cannot be written")
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


def fail_at_once(record: JobRecord, cache: Path) -> None:
    parts = parts_with()
    drive(record, parts, cache, engine=inline_engine(parts, {0: JobError("again, on purpose")}))


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


def test_a_job_that_was_cancelled_while_it_waited_to_be_resumed_is_not(place: Place) -> None:
    service, record = Service(place), queued(place, "a")
    cancel(record, service.parts, by="a test")
    enqueue(record, service.parts)
    cancel(record, service.parts, by="a test")
    assert service.look() == []
    assert waiting_jobs(service.store) == []
    assert service.left == [record.job], "its first end is told, and it has no other"
    enqueue(record, service.parts)
    assert service.look() == [record.job]


def test_a_failed_job_that_waits_can_be_taken_out_of_the_queue(place: Place, cache: Path) -> None:
    service = Service(place)
    record = stopped_job(place, cache, JobError("failed on purpose"))
    enqueue(record, service.parts)
    assert cancel(record, service.parts, by="a test").state is State.FAILED
    assert service.look() == []


def test_a_job_that_is_queued_while_an_old_place_is_found_over_is_begun(
    place: Place, cache: Path
) -> None:
    record = stopped_job(place, cache, JobError("failed on purpose"))
    enqueue(record, parts_with())
    (before,) = waiting_jobs(record.store)
    with pytest.raises(JobError):
        fail_at_once(record, cache)
    assert decide(before, record.state(), is_driver_dead=False) is Turn.OVER
    enqueue(record, parts_with())
    leave_queue(record.store, before)
    assert Service(place).look() == [record.job]


def test_a_job_whose_driver_is_dead_can_be_queued(place: Place, cache: Path) -> None:
    parts = parts_with()
    record = submit(place.submission(), store_url=place.store, parts=parts)
    gone = Driver(host=this_process().host, pid=1, process="gone:0")
    take_seat(record, gone, parts)
    enqueue(record, parts)
    service = Service(place)
    assert service.look() == []
    assert service.look(after_s=LEASE_NS // NS_PER_SECOND) == [record.job]


def test_a_job_whose_driver_lives_is_left_to_it(place: Place) -> None:
    service, record = Service(place), queued(place, "a")
    seat = take_seat(record, this_process(), service.parts)
    enqueue(record, service.parts)
    for _ in range(20):
        seat.renew()
        assert service.look(after_s=5) == []


def test_a_job_that_no_driver_moves_on_is_given_up(place: Place, cache: Path) -> None:
    service, record = Service(place), queued(place, "a")
    service.over.update(range(100))
    for _ in range(30):
        service.look(after_s=60)
    assert len(service.started) == 20
    assert waiting_jobs(service.store) == []
    assert service.left == [record.job]


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ([], State.FAILED),
        ([Event.PLANNED, Event.STARTED], State.FAILED),
        ([Event.PLANNED, Event.STARTED, Event.ALL_COMMITTED], State.PUBLISHING),
    ],
)
def test_what_is_given_up_says_why(place: Place, events: list[Event], ends: State) -> None:
    service, record = Service(place), queued(place, "a")
    seat = take_seat(record, this_process(), parts_with())
    for event in events:
        seat.move(event)
    abandon(seat)
    service.over.update(range(100))
    for _ in range(30):
        service.look(after_s=60)
    state = record.state()
    assert state is not None
    assert state.state is ends
    assert state.failure is not None
    assert state.failure.code == "job_not_driven"
    assert f"jobs/{record.job}.log" in state.failure.message
    assert waiting_jobs(service.store) == []


def test_a_job_that_gets_on_is_begun_as_often_as_it_takes(place: Place) -> None:
    service, record = Service(place), queued(place, "a")
    service.over.update(range(100))
    for committed in range(30):
        chunk = Path(place.store, "jobs", record.job, "commits", f"{committed:06d}.json")
        chunk.parent.mkdir(exist_ok=True)
        chunk.touch()
        abandon(take_seat(record, this_process(), parts_with()))
        service.look()
        service.look(after_s=60)
    assert len(service.started) == 30


def test_a_job_whose_driver_cannot_be_started_keeps_nobody_from_the_queue(place: Place) -> None:
    service = Service(place)
    first, second = queued(place, "a"), queued(place, "b")
    service.cannot_start.add(first.job)
    for _ in range(30):
        service.look(after_s=60)
    assert service.started == [second.job]
    assert first.job in {waiting.job for waiting in waiting_jobs(service.store)}, "it is not lost"


def test_what_has_lost_rows_is_not_queued(place: Place, cache: Path) -> None:
    record = stopped_job(place, cache, JobError("failed on purpose"))
    for attempt in Path(place.output).glob("**/*.attempt"):
        attempt.unlink()
    with pytest.raises(CommittedDataMissingError):
        drive(record, parts_with(), cache)
    with pytest.raises(JobConflictError, match="cannot be resumed"):
        enqueue(record, parts_with())


def test_what_is_over_is_not_queued(place: Place, cache: Path) -> None:
    parts = parts_with()
    failed = stopped_job(place, cache, JobError("failed on purpose"))
    published = run_job(place, cache)
    with pytest.raises(JobPublishedError):
        enqueue(published, parts)
    with pytest.raises(JobConflictError, match="superseded"):
        enqueue(failed, parts)


def test_a_damaged_place_in_the_queue_stops_nobody_else(place: Place) -> None:
    service = Service(place)
    Path(place.store, "queue").mkdir()
    Path(place.store, "queue/0123456789abcdef.json").write_text("{")
    record = queued(place, "a")
    Path(place.store, "jobs", record.job, "state.json").write_text("{")
    other = queued(place, "b")
    assert service.look() == [other.job]
