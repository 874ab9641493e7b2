"""Who drives a job: one at a time, others when it is dead, and several without any harm."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.engines import InlineEngine
from tests.fixtures.batch_jobs import (
    Place,
    SilentDisplay,
    SteppingClock,
    abandon,
    assert_each_row_once,
    crew_with,
    drive,
    inline_engine,
    new_place,
    parts_with,
    stopped_job,
)
from tidegate.errors import JobError
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import (
    DriverReplacedError,
    JobConflictError,
    JobDrivenError,
    JobPublishedError,
    JobRecordError,
    RowsMismatchError,
)
from tidegate_batch.core.formats import InputFormat
from tidegate_batch.core.lease import LEASE_NS, RENEW_NS
from tidegate_batch.core.names import state_key
from tidegate_batch.core.records import Driver, JobFailure
from tidegate_batch.core.states import Event, State
from tidegate_batch.main.session import Answer, Session
from tidegate_batch.pipeline.driving import JobDriver
from tidegate_batch.pipeline.identity import is_surely_gone, this_process
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import FoundInput, WorkerEvent
from tidegate_batch.sources.files import FileSource

ROWS = 60
ELSEWHERE = Driver(host="elsewhere", pid=1, process="elsewhere:1")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


@pytest.fixture
def record(place: Place) -> JobRecord:
    """Submit a job of six chunks."""
    return submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts_with())


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


class InterferingEngine(InlineEngine):
    """Lets something else happen in the middle of a chunk."""

    def __init__(self, inner: InlineEngine, *, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner._build)
        self._at = at
        self._meanwhile = meanwhile

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        if len(self.assigned) == self._at:
            self._at = -1
            self._meanwhile()
        return super().next_event(timeout_ns)


@pytest.mark.field_fault("B-14")
def test_a_job_is_taken_over_when_its_driver_was_silent_for_a_whole_lease(
    record: JobRecord, place: Place, cache: Path
) -> None:
    clock = SteppingClock()
    parts = parts_with(clock=clock)
    abandon(take_seat(record, this_process(), parts))
    began_ns = clock.now_ns()
    drive(record, parts, cache)
    assert clock.now_ns() - began_ns == LEASE_NS
    assert_each_row_once(place.output, ROWS)


def test_a_driver_that_renews_is_left_alone(record: JobRecord) -> None:
    clock = SteppingClock()
    seat = take_seat(record, ELSEWHERE, parts_with())

    def pause(duration_ns: int) -> None:
        clock.advance(duration_ns)
        if clock.now_ns() % RENEW_NS == 0:
            seat.renew()

    clock.pause = pause  # type: ignore[method-assign] # the other driver's time passes, too
    with pytest.raises(JobDrivenError, match="process 1 on elsewhere"):
        take_seat(record, this_process(), parts_with(clock=clock))
    assert clock.now_ns() == RENEW_NS


def test_a_seat_that_was_left_is_taken_at_once(record: JobRecord) -> None:
    clock = SteppingClock()
    take_seat(record, ELSEWHERE, parts_with()).leave()
    take_seat(record, this_process(), parts_with(clock=clock))
    assert clock.now_ns() == 0


def test_a_process_of_this_machine_is_known_to_be_gone_only_if_it_is() -> None:
    me = this_process()
    space = me.process.rpartition(":")[0]
    assert not is_surely_gone(me)
    assert is_surely_gone(Driver(host=me.host, pid=me.pid, process=f"{space}:1"))
    assert not is_surely_gone(Driver(host=me.host, pid=me.pid, process="another-boot:pid:[1]:1"))


def test_a_driver_that_was_replaced_stops_and_the_other_publishes(
    record: JobRecord, place: Place, cache: Path
) -> None:
    parts = parts_with()

    def another_driver_finishes() -> None:
        abandoned = record.change_state(lambda now: now.driven_by(None))
        assert abandoned.state is State.RUNNING
        drive(record, parts_with(), cache, driver=ELSEWHERE)

    engine = InterferingEngine(inline_engine(parts), at=2, meanwhile=another_driver_finishes)
    with pytest.raises(DriverReplacedError, match="is published now, moved on by somebody"):
        drive(record, parts, cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert list(Path(place.output).glob("**/*.attempt")) == []


def test_what_another_driver_committed_is_adopted_and_ones_own_attempt_removed(
    record: JobRecord, place: Place, cache: Path
) -> None:
    parts = parts_with()

    def another_driver_commits_some_and_stops() -> None:
        record.change_state(lambda now: now.driven_by(None))
        with pytest.raises(KeyboardInterrupt):
            drive(
                record,
                parts_with(),
                cache,
                driver=ELSEWHERE,
                engine=inline_engine(parts_with(), {3: KeyboardInterrupt()}),
            )

    engine = InterferingEngine(
        inline_engine(parts), at=2, meanwhile=another_driver_commits_some_and_stops
    )
    with pytest.raises(DriverReplacedError):
        drive(record, parts, cache, engine=engine)
    commits = record.committed_chunks()
    attempts = [path.name.split(".")[0] for path in Path(place.output).glob("**/*.attempt")]
    assert sorted(attempts) == sorted(commits), "one file for each commit, the winner's"
    drive(record, parts_with(), cache)
    assert_each_row_once(place.output, ROWS)


@pytest.mark.parametrize("drivers", [2, 3])
def test_several_drivers_at_the_same_time_leave_one_copy_of_each_row(
    record: JobRecord, place: Place, cache: Path, drivers: int
) -> None:
    ends: list[str] = []
    together = threading.Barrier(drivers)

    def one() -> None:
        parts = parts_with()
        together.wait()
        record.change_state(lambda now: now.driven_by(None)) if record.state() else None
        try:
            drive(record, parts, cache)
            ends.append("published")
        except JobError as error:
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=one) for _ in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ends) <= {"published", "DriverReplacedError", "JobDrivenError"}
    if "published" not in ends:
        drive(record, parts_with(), cache)
    assert_each_row_once(place.output, ROWS)


@pytest.mark.field_fault("B-07")
def test_a_resume_scores_only_what_was_not_committed(place: Place, cache: Path) -> None:
    record = stopped_job(place, cache, KeyboardInterrupt())
    committed = record.committed_chunks()
    parts = parts_with()
    engine = inline_engine(parts)
    finished = drive(record, parts, cache, engine=engine)
    assert len(committed) == 2
    assert {chunk for _, chunk in engine.assigned} == {f"{n:06d}" for n in range(6)} - committed
    assert finished.rows_scored == ROWS - 20
    assert_each_row_once(place.output, ROWS)


def test_a_job_that_was_cancelled_by_somebody_stays_cancelled(
    record: JobRecord, cache: Path
) -> None:
    parts = parts_with()

    def somebody_cancels() -> None:
        record.change_state(lambda now: now.moved(Event.CANCELLED, "t"))

    engine = InterferingEngine(inline_engine(parts), at=2, meanwhile=somebody_cancels)
    with pytest.raises(DriverReplacedError, match="was cancelled, and this driver has stopped"):
        drive(record, parts, cache, engine=engine)
    state = record.state()
    assert state is not None
    assert state.state is State.CANCELLED


def test_an_input_that_changed_since_the_plan_is_named_by_a_resume(
    place: Place, cache: Path
) -> None:
    record = stopped_job(place, cache, KeyboardInterrupt())
    file = Path(place.input, "rows-00.parquet")
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(JobConflictError, match=r"the input .*rows-00\.parquet changed"):
        drive(record, parts_with(), cache)


def finishing(record: JobRecord, cache: Path) -> Parts:
    """Seat another driver, and return parts of one that meanwhile pauses, and finds it done."""
    clock, parts = SteppingClock(), parts_with()
    seat = take_seat(record, ELSEWHERE, parts)

    def pause(duration_ns: int) -> None:
        clock.advance(duration_ns)
        driver = JobDriver(seat, parts=parts, display=SilentDisplay())
        driver.run(crew_with(inline_engine(parts), cache))

    return dataclasses.replace(parts_with(clock=clock), pause=pause)


def test_a_job_that_its_driver_publishes_meanwhile_has_no_seat_to_take(
    record: JobRecord, cache: Path
) -> None:
    parts = finishing(record, cache)
    with pytest.raises(JobPublishedError, match="is published; nothing is left to do"):
        take_seat(record, this_process(), parts)


@pytest.mark.parametrize("command", [Session.run, Session.run_alone])
def test_a_command_upon_a_job_that_is_published_just_then_is_content(
    record: JobRecord, cache: Path, command: Callable[[Session, JobRecord], Answer]
) -> None:
    flags = {"store": record.store.url, "cache_dir": str(cache), "batch.engine": "local"}
    session = Session(flags, config=None)
    session.parts = finishing(record, cache)
    answer = command(session, record)
    assert (answer.status.state, answer.finished, answer.log) == ("published", None, None)


def test_a_resume_that_is_refused_leaves_the_reason_for_which_the_job_failed(
    place: Place, cache: Path
) -> None:
    record = stopped_job(place, cache, RowsMismatchError("a doubt, on purpose"))
    file = Path(place.input, "rows-00.parquet")
    file.write_bytes(file.read_bytes() + b"\0")
    for _ in range(2):
        with pytest.raises(JobConflictError, match="cannot go on"):
            drive(record, parts_with(), cache)
        state = record.state()
        assert state is not None
        assert state.failure == JobFailure(code="rows_mismatch", message="a doubt, on purpose")


def test_a_job_that_has_ended_is_not_renewed(record: JobRecord) -> None:
    seat = take_seat(record, this_process(), parts_with())
    seat.move(Event.FAILED, failure=JobFailure(code="x", message="on purpose"))
    ended = record.state()
    seat.renew()
    assert record.state() == ended


class BrokenSource(FileSource):
    def find(self, pattern: str, *, kind: InputFormat | None = None) -> list[FoundInput]:
        raise ZeroDivisionError("a bug, on purpose")


def test_a_bug_fails_the_job_with_what_is_known_of_it(record: JobRecord, cache: Path) -> None:
    parts = dataclasses.replace(parts_with(), source=BrokenSource(open_store))
    with pytest.raises(ZeroDivisionError):
        drive(record, parts, cache)
    state = record.state()
    assert state is not None
    assert state.state is State.FAILED
    assert state.failure is not None
    assert state.failure.code == "internal"
    assert "ZeroDivisionError: a bug, on purpose" in state.failure.message


def test_a_state_that_nobody_can_read_stops_the_driver_with_its_reason(
    record: JobRecord,
) -> None:
    seat = take_seat(record, this_process(), parts_with())
    Path(record.store.url, state_key(record.job)).write_bytes(b"no state")
    with seat.renewed(every_ns=1_000_000):
        for thread in threading.enumerate():
            if thread.name == f"lease of job {record.job}":
                thread.join(60)
    with pytest.raises(JobRecordError, match=r"state\.json in .* cannot be read"):
        seat.check()
