"""Workers die, stores fail, rows are bad: what the job makes of it."""

import dataclasses
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.fakes.engines import AFTER_COMMIT, BEFORE_COMMIT, InlineEngine
from tests.fakes.faulty_stores import FlakyStores
from tests.fixtures.batch_jobs import (
    MINUTE_NS,
    Place,
    SilentDisplay,
    SteppingClock,
    assert_each_row_once,
    crew_with,
    drive,
    inline_engine,
    new_place,
    parts_with,
)
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectChangedError
from tidegate_batch.core.chunks import RETRY_LIMIT, RETRY_PAUSE_NS
from tidegate_batch.core.errors import (
    ChunkFailedError,
    NoCommitError,
    RowsMismatchError,
    WorkersFailedError,
)
from tidegate_batch.core.names import ChunkId, commit_key
from tidegate_batch.core.records import PlannedInput, dump
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.driving import JobDriver
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import Assignment, ReadRows, Refused, WorkerEvent, WorkerLost, WorkerSaid
from tidegate_batch.sources.files import FileSource

ROWS = 200


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=ROWS)


@pytest.fixture
def record(place: Place) -> JobRecord:
    """Submit a job of twenty chunks."""
    return submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts_with())


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def failure_of(record: JobRecord) -> tuple[str, str]:
    state = record.state()
    assert state is not None
    assert state.state is State.FAILED
    assert state.failure is not None
    return state.failure.code, state.failure.message


@pytest.mark.field_fault("B-03", "B-04", "B-16")
@pytest.mark.parametrize("seed", range(5))
def test_workers_that_die_at_random_change_nothing_about_the_output(
    record: JobRecord, place: Place, cache: Path, seed: int
) -> None:
    chance = random.Random(seed)
    deaths = {
        number: chance.choice([BEFORE_COMMIT, AFTER_COMMIT])
        for number in range(200)
        if chance.random() < 0.3
    }
    parts = parts_with()
    engine = inline_engine(parts, deaths)
    drive(record, parts, cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    killed = sum(number < len(engine.assigned) for number in deaths)
    assert len(engine.assigned) <= 20 + killed, "one chunk of extra work for each kill at most"
    assert len(engine.workers) == 2 + killed


@pytest.mark.field_fault("B-36")
def test_progress_never_falls_nor_passes_the_whole_over_kills_and_a_resume(
    record: JobRecord, cache: Path
) -> None:
    display = SilentDisplay()
    rounds: list[dict[int, str | BaseException]] = [
        {3: AFTER_COMMIT, 9: KeyboardInterrupt()},
        {2: BEFORE_COMMIT},
    ]
    for deaths in rounds:
        parts = parts_with()
        engine = inline_engine(parts, deaths)
        driver = JobDriver(take_seat(record, this_process(), parts), parts=parts, display=display)
        try:
            driver.run(crew_with(engine, cache))
        except KeyboardInterrupt:
            continue
    done = [shown.rows_committed for shown in display.shown]
    assert done == sorted(done)
    assert done[-1] == ROWS == display.shown[-1].rows


class SilentEngine(InlineEngine):
    """Its workers take chunks and are never heard of again, while time passes."""

    def __init__(self, inner: InlineEngine, clock: SteppingClock) -> None:
        super().__init__(inner._build)
        self._clock = clock

    def assign(self, worker: int, assignment: Assignment) -> None:
        self.assigned.append((worker, assignment.chunk))

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        event = super().next_event(timeout_ns)
        if event is None:
            self._clock.advance(timeout_ns)
        return event


@pytest.mark.field_fault("B-01", "B-02")
def test_a_job_in_which_nothing_is_committed_ends_with_an_error_in_time(
    record: JobRecord, cache: Path
) -> None:
    clock = SteppingClock()
    parts = parts_with(clock=clock)
    engine = SilentEngine(inline_engine(parts), clock)
    with pytest.raises(NoCommitError, match="no chunk was committed for 600 s: 0 of 20 are done"):
        drive(record, parts, cache, engine=engine)
    assert clock.now_ns() == 10 * MINUTE_NS
    assert failure_of(record)[0] == "no_commit"


class StillbornEngine(InlineEngine):
    """The first workers die before they are ready."""

    def __init__(self, inner: InlineEngine, *, stillborn: int) -> None:
        super().__init__(inner._build)
        self._stillborn = stillborn

    def add_worker(self, worker: int) -> None:
        if worker >= self._stillborn:
            super().add_worker(worker)
            return
        self.workers.append(worker)
        self._events.append(WorkerLost(worker=worker, reason="no memory"))


@pytest.mark.field_fault("B-05")
def test_a_failed_start_is_repeated(record: JobRecord, place: Place, cache: Path) -> None:
    parts = parts_with()
    drive(record, parts, cache, engine=StillbornEngine(inline_engine(parts), stillborn=5))
    assert_each_row_once(place.output, ROWS)


def test_a_machine_that_can_start_no_worker_is_given_up(record: JobRecord, cache: Path) -> None:
    parts = parts_with()
    engine = StillbornEngine(inline_engine(parts), stillborn=10**6)
    with pytest.raises(WorkersFailedError, match=r"6 workers in a row .* the last: no memory"):
        drive(record, parts, cache, engine=engine)
    assert failure_of(record)[0] == "workers_failed"


class RefusingEngine(InlineEngine):
    """A worker finds that the model is not the pinned one."""

    def add_worker(self, worker: int) -> None:
        refused = Refused(code="digest_mismatch", message="model.onnx is not the file")
        self._events.append(WorkerSaid(worker=worker, message=refused))


def test_a_worker_that_can_never_work_ends_the_job(record: JobRecord, cache: Path) -> None:
    parts = parts_with()
    engine = RefusingEngine(inline_engine(parts)._build)
    with pytest.raises(ChunkFailedError, match=r"model\.onnx is not the file") as raised:
        drive(record, parts, cache, engine=engine)
    assert pickle.loads(pickle.dumps(raised.value)).code == "digest_mismatch"
    assert failure_of(record)[0] == "digest_mismatch"


@pytest.mark.parametrize("edit", ["appended", "in place", "deleted"])
def test_an_input_that_changes_under_the_job_fails_it(
    record: JobRecord, place: Place, cache: Path, edit: str
) -> None:
    file = Path(place.input, "rows-00.parquet")

    def change() -> None:
        if edit == "deleted":
            file.unlink()
        elif edit == "appended":
            file.write_bytes(file.read_bytes() + b"x")
        else:
            with file.open("r+b") as opened:
                opened.write(b"PAR1")  # the same bytes, at another time

    parts = parts_with()
    engine = MeddlingEngine(inline_engine(parts), at=3, meddle=change)
    with pytest.raises(ChunkFailedError, match=r"rows-00\.parquet in .* is no longer the object"):
        drive(record, parts, cache, engine=engine)
    assert failure_of(record)[0] == ObjectChangedError.code


class MeddlingEngine(InlineEngine):
    """Lets something happen before one of the chunks is scored."""

    def __init__(self, inner: InlineEngine, *, at: int, meddle: Callable[[], None]) -> None:
        super().__init__(inner._build)
        self._at = at
        self._meddle = meddle

    def _work(self) -> WorkerEvent:
        if len(self.assigned) == self._at:
            self._meddle()
        return super()._work()


class ShortSource(FileSource):
    """Yields fewer rows than the footer promises."""

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        for read in super().read(
            planned, first_row=first_row, rows=rows, columns=columns, batch_rows=batch_rows
        ):
            yield ReadRows(batch=read.batch.slice(1), row_index=read.row_index[1:])


@pytest.mark.field_fault("B-37")
def test_rows_that_went_missing_are_noticed_before_anything_is_committed(
    record: JobRecord, place: Place, cache: Path
) -> None:
    parts = dataclasses.replace(parts_with(), source=ShortSource(open_store))
    with pytest.raises(ChunkFailedError, match="10 rows were planned, 9 came out"):
        drive(record, parts, cache)
    assert failure_of(record)[0] == "rows_mismatch"
    assert record.committed_chunks() == set()
    assert list(Path(place.output).glob("**/part-*")) == []


def test_a_store_that_fails_now_and_then_only_costs_time(
    record: JobRecord, place: Place, cache: Path
) -> None:
    clock = SteppingClock()
    parts = parts_with(FlakyStores(open_store, suffix=".attempt", failures=2), clock)
    engine = inline_engine(parts)
    drive(record, parts, cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert len(engine.assigned) == 20 + 2
    assert clock.now_ns() == RETRY_PAUSE_NS, "nobody asks a store again at once"


@pytest.mark.field_fault("B-30")
def test_a_store_that_keeps_failing_fails_the_job_with_its_reason(
    record: JobRecord, place: Place, cache: Path
) -> None:
    parts = parts_with(FlakyStores(open_store, suffix=".attempt", failures=10**6))
    engine = inline_engine(parts)
    with pytest.raises(ChunkFailedError, match="the disk is full, on purpose"):
        drive(record, parts, cache, engine=engine)
    assert failure_of(record)[0] == "part_unavailable"
    assert len(engine.assigned) <= 20 * RETRY_LIMIT
    assert list(Path(place.output).glob("**/part-*")) == []


@pytest.mark.field_fault("B-37")
@pytest.mark.parametrize("harm", ["missing", "other rows"])
def test_commits_that_do_not_add_up_to_the_plan_publish_nothing(
    record: JobRecord, place: Place, cache: Path, harm: str
) -> None:
    chunk = ChunkId("000007")

    def spoil() -> None:
        file = Path(place.store, commit_key(record.job, chunk))
        commit = record.commit(chunk)
        assert commit is not None
        data = msgspec.structs.replace(commit.data, rows=9)
        lie = msgspec.structs.replace(commit, rows_in=9, rows_out=9, data=data)
        file.unlink() if harm == "missing" else file.write_bytes(dump(lie))

    parts = parts_with()
    engine = MeddlingEngine(inline_engine(parts), at=19, meddle=spoil)
    with pytest.raises(RowsMismatchError, match=r"chunk 000007 of job .* 10 rows were planned"):
        drive(record, parts, cache, engine=engine)
    assert failure_of(record)[0] == "rows_mismatch"
    assert list(Path(place.output).glob("**/part-*")) == []
