"""What the chunk loop relies on of an engine: the fake, processes of this machine, Ray actors."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fixtures.batch_jobs import (
    MINUTE_NS,
    SilentDisplay,
    crew_with,
    inline_engine,
    new_place,
    parts_with,
    published_rows,
    write_rows,
)
from tidegate_batch.core.records import Driver, dump
from tidegate_batch.main.wiring import build_scorer
from tidegate_batch.pipeline.driving import JobDriver
from tidegate_batch.pipeline.engines.local import LocalEngine
from tidegate_batch.pipeline.engines.ray_folder import make_folder, remove_folder
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import (
    Assignment,
    Committed,
    Engine,
    Failed,
    Ready,
    Refused,
    WorkerEvent,
    WorkerLost,
    WorkerSaid,
    WorkerSetup,
)

LONG_NS = 2 * MINUTE_NS


@pytest.fixture
def record(tmp_path: Path) -> JobRecord:
    """Plan a job of three chunks."""
    place, parts = new_place(tmp_path, 30, row_group_rows=10), parts_with()
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    seat = take_seat(record, this_process(), parts)
    JobDriver(seat, parts=parts, display=SilentDisplay()).prepare()
    return record


def ray_engine() -> Engine:
    from tidegate_batch.pipeline.engines.ray import RayEngine  # noqa: PLC0415 - heavy, for one engine of three

    return RayEngine(build_scorer, cores=2, workers=2)


def build(name: str) -> Engine:
    match name:
        case "local":
            return LocalEngine([sys.executable, "-m", "tidegate_batch.main.worker"])
        case "ray":
            return ray_engine()
        case _:
            return inline_engine(parts_with())


@contextmanager
def closing(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.close()
        engine.close()  # twice is no mistake


@pytest.fixture(params=["inline", "local", "ray"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Build the fake and both real engines."""
    with closing(build(request.param)) as engine:
        yield engine


@pytest.fixture(params=["local", "ray"])
def processes(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Build the engines whose workers are processes that can be killed."""
    with closing(build(request.param)) as engine:
        yield engine


def start(engine: Engine, record: JobRecord, tmp_path: Path) -> None:
    engine.start(
        WorkerSetup(
            store=record.store.url,
            job=record.job,
            epoch=1,
            threads=1,
            cache_dir=str(tmp_path / "cache"),
        )
    )


def event_of(engine: Engine) -> WorkerEvent:
    event = engine.next_event(LONG_NS)
    assert event is not None, "nothing happened for two minutes"
    return event


def pid_when_ready(engine: Engine) -> int:
    event = event_of(engine)
    assert isinstance(event, WorkerSaid)
    assert isinstance(event.message, Ready)
    return event.message.pid


def an_assignment(number: int) -> Assignment:
    return Assignment(chunk=f"{number:06d}", attempt=f"{number:032x}")


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_workers_become_ready_and_report_what_they_commit_and_what_fails(
    engine: Engine, record: JobRecord, tmp_path: Path
) -> None:
    start(engine, record, tmp_path)
    for worker in (0, 1):
        engine.add_worker(worker)
    pid_when_ready(engine)
    pid_when_ready(engine)
    assert engine.next_event(0) is None, "a worker that waits says nothing"
    for worker in (0, 1):
        engine.assign(worker, an_assignment(worker))
    said = [event_of(engine), event_of(engine)]
    for worker in (0, 1):
        committed = Committed(chunk=f"{worker:06d}")
        assert WorkerSaid(worker=worker, message=committed) in said
    assert record.committed_chunks() == {"000000", "000001"}
    write_rows(tmp_path / "in", 31)
    for worker in (0, 0):  # its worker goes on after a failure
        engine.assign(worker, an_assignment(2))
        event = event_of(engine)
        assert isinstance(event, WorkerSaid)
        assert isinstance(event.message, Failed)
        assert (event.message.code, event.message.is_retriable) == ("input_changed", False)


def test_a_worker_that_cannot_do_the_job_says_why(
    processes: Engine, record: JobRecord, tmp_path: Path
) -> None:
    model = Path(record.store.url, "models/double/1/model.onnx")
    model.write_bytes(model.read_bytes() + b"\0")
    start(processes, record, tmp_path)
    processes.add_worker(0)
    event = event_of(processes)
    assert isinstance(event, WorkerSaid)
    assert isinstance(event.message, Refused)
    assert event.message.code == "digest_mismatch"


@pytest.mark.field_fault("B-01", "B-03")
def test_a_worker_killed_in_mid_chunk_is_reported_and_replaced_and_none_outlives_the_engine(
    processes: Engine, record: JobRecord, tmp_path: Path
) -> None:
    start(processes, record, tmp_path)
    processes.add_worker(0)
    pid = pid_when_ready(processes)
    os.kill(pid, signal.SIGSTOP)  # it will take the chunk and not get far
    processes.assign(0, an_assignment(0))
    os.kill(pid, signal.SIGKILL)
    lost = event_of(processes)
    assert isinstance(lost, WorkerLost)
    assert lost.worker == 0
    assert lost.reason
    assert not is_alive(pid)
    processes.add_worker(1)
    pid = pid_when_ready(processes)
    processes.assign(1, an_assignment(0))
    assert event_of(processes) == WorkerSaid(worker=1, message=Committed(chunk="000000"))
    os.kill(pid, signal.SIGSTOP)
    processes.assign(1, an_assignment(1))
    processes.close()
    assert not is_alive(pid)


def test_the_last_words_of_a_worker_that_died_are_passed_on(
    processes: Engine, record: JobRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")  # then it has something to say
    start(processes, record, tmp_path)
    processes.add_worker(0)
    pid = pid_when_ready(processes)
    os.kill(pid, signal.SIGSTOP)
    processes.assign(0, an_assignment(0))
    os.kill(pid, signal.SIGABRT)
    os.kill(pid, signal.SIGCONT)
    lost = event_of(processes)
    assert isinstance(lost, WorkerLost)
    assert "; its last words: " in lost.reason


def test_a_start_of_ray_removes_what_a_driver_left_that_was_killed() -> None:
    folders = [make_folder() for _ in range(3)]
    try:
        left, others, mine = folders
        me = this_process()
        here = me.process.rpartition(":")[0]
        gone = Driver(host=me.host, pid=me.pid, process=f"{here}:1")
        next(left.iterdir()).write_bytes(dump(gone))
        next(others.iterdir()).write_text("{}")
        folders.append(make_folder())
        assert [folder.exists() for folder in (left, others, mine)] == [False, True, True]
    finally:
        for folder in folders:
            remove_folder(folder)


def test_a_whole_job_goes_through(engine: Engine, record: JobRecord, tmp_path: Path) -> None:
    parts = parts_with()
    seat = take_seat(record, this_process(), parts)
    driver = JobDriver(seat, parts=parts, display=SilentDisplay())
    driver.run(crew_with(engine, tmp_path / "cache"))
    published = published_rows(str(tmp_path / "out")).sort_by("id")
    assert published["id"].to_pylist() == list(range(30))
