"""Workers that are told in time that their machine goes: by a signal, a file or the cloud."""

import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.fakes.engines import InlineEngine
from tests.fixtures.batch_jobs import (
    SilentDisplay,
    SteppingClock,
    assert_each_row_once,
    crew_with,
    drive,
    inline_engine,
    new_place,
    parts_with,
)
from tidegate.clock import ManualClock
from tidegate.errors import SettingError
from tidegate_batch.core.chunks import CHUNK_LEASE_NS, RETRY_LIMIT
from tidegate_batch.main.wiring import build_scorer
from tidegate_batch.pipeline.departing import Departure, watch
from tidegate_batch.pipeline.driving import JobDriver
from tidegate_batch.pipeline.engines.local import LocalEngine
from tidegate_batch.pipeline.engines.wire import decode, encode
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.notices import (
    AmazonNotice,
    FileNotice,
    GoogleNotice,
    checked_address,
    notices_of,
)
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import (
    Committed,
    Leaving,
    NoticeSetup,
    Preemption,
    Ready,
    WorkerEvent,
    WorkerLost,
    WorkerSaid,
)

S = 1_000_000_000
ROWS = 60
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class NoonWall:
    """It is always noon."""

    def utc_now(self) -> datetime:
        return NOON


class Metadata:
    """Imitates the metadata services of both clouds."""

    def __init__(self) -> None:
        self.action: dict[str, str] | None = None
        self.preempted = "FALSE"
        self.tokens: list[str] = []
        self.good_token = ""
        self.address = ""

    def token(self) -> str:
        self.good_token = f"token-{len(self.tokens)}"
        self.tokens.append(self.good_token)
        return self.good_token


@contextmanager
def serving(metadata: Metadata) -> Iterator[Metadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            wanted = self.path == "/latest/api/token"
            lives = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            self._send(200, metadata.token()) if wanted and lives else self._send(400, "")

        def do_GET(self) -> None:
            if self.path == "/computeMetadata/v1/instance/preempted":
                is_asked_well = self.headers["Metadata-Flavor"] == "Google"
                self._send(200, metadata.preempted) if is_asked_well else self._send(403, "")
            elif self.headers["X-aws-ec2-metadata-token"] != metadata.good_token:
                self._send(401, "")
            elif metadata.action is None:
                self._send(404, "not found")
            else:
                self._send(200, json.dumps(metadata.action))

        def _send(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        metadata.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield metadata
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    with serving(Metadata()) as served:
        yield served


def test_amazon_says_when_the_instance_goes(metadata: Metadata) -> None:
    notice = AmazonNotice(metadata.address, NoonWall())
    assert notice.look() is None
    at = (NOON + timedelta(seconds=90)).isoformat().replace("+00:00", "Z")
    metadata.action = {"action": "terminate", "time": at}
    said = notice.look()
    assert said == Preemption(left_ns=90 * S, reason="Amazon will terminate this instance")
    assert metadata.tokens == ["token-0"], "a token is kept while it is good"


def test_amazons_token_is_renewed_when_it_is_too_old(metadata: Metadata) -> None:
    notice = AmazonNotice(metadata.address, NoonWall())
    assert notice.look() is None
    metadata.good_token = "another"
    metadata.action = {"action": "stop", "time": "2026-01-01T11:00:00Z"}
    said = notice.look()
    assert said is not None
    assert said.left_ns == 0, "an end that has passed leaves no time"
    assert metadata.tokens == ["token-0", "token-1"]


@pytest.mark.parametrize("action", [{}, {"action": "stop"}, {"action": "x", "time": "soon"}])
def test_what_amazon_never_says_is_no_notice(metadata: Metadata, action: dict[str, str]) -> None:
    metadata.action = action
    assert AmazonNotice(metadata.address, NoonWall()).look() is None


def test_google_says_that_the_instance_was_preempted(metadata: Metadata) -> None:
    notice = GoogleNotice(metadata.address)
    assert notice.look() is None
    metadata.preempted = "TRUE"
    assert notice.look() == Preemption(left_ns=30 * S, reason="Google has preempted this instance")


def test_a_metadata_service_that_is_away_is_no_notice(metadata: Metadata) -> None:
    with serving(Metadata()) as gone:
        address = gone.address
    assert AmazonNotice(address, NoonWall()).look() is None
    assert GoogleNotice(address).look() is None


@pytest.mark.parametrize(("text", "left_s"), [("", 120), ("45\n", 45), ("soon", 120)])
def test_a_file_may_say_how_long(tmp_path: Path, text: str, left_s: int) -> None:
    notice = FileNotice(tmp_path / "preempted")
    assert notice.look() is None
    (tmp_path / "preempted").write_text(text)
    said = notice.look()
    assert said is not None
    assert said.left_ns == left_s * S


def test_settings_name_the_sources(tmp_path: Path) -> None:
    wall = NoonWall()
    assert notices_of(NoticeSetup(), wall) == []
    kinds = [type(each) for each in notices_of(NoticeSetup(file="f", cloud="aws"), wall)]
    assert kinds == [FileNotice, AmazonNotice]
    assert [type(each) for each in notices_of(NoticeSetup(cloud="gcp"), wall)] == [GoogleNotice]


@pytest.mark.parametrize(
    "address", ["", "169.254.169.254", "https://x", "http://x/y", "http://x:y", "http://[::1"]
)
def test_what_is_no_address_of_a_metadata_service_is_refused(address: str) -> None:
    with pytest.raises(SettingError, match=r"batch\.preemption_address"):
        checked_address(address)


class Process:
    """A worker as its departure sees it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.said: list[object] = []
        self.has_ended = False
        self.departure = Departure(
            self.clock, say=lambda message: self.said.append(decode(message)), end=self._end
        )

    def _end(self) -> None:
        self.has_ended = True

    def chunk(self, took_s: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        def work() -> bytes:
            self.clock.advance(took_s * S)
            meanwhile()
            return encode(Committed(chunk="000000"))

        self.departure.score(work)


LEAVING = Leaving(reason="why")
DONE = Committed(chunk="000000")


def test_an_idle_worker_leaves_at_once() -> None:
    process = Process()
    process.chunk(took_s=1)
    process.departure.on_notice(Preemption(left_ns=S, reason="why"))
    assert process.said == [DONE, LEAVING]
    assert process.has_ended


def test_a_chunk_that_fits_is_finished_and_nothing_else() -> None:
    process = Process()
    process.chunk(took_s=10)

    def told() -> None:
        process.departure.on_notice(Preemption(left_ns=5 * S, reason="why"))
        assert not process.has_ended

    process.chunk(9, told)
    assert process.said == [DONE, LEAVING, DONE]
    assert process.has_ended


def test_a_chunk_that_does_not_fit_is_dropped() -> None:
    process = Process()
    process.chunk(took_s=10)

    def told() -> None:
        process.departure.on_notice(Preemption(left_ns=5 * S, reason="why"))
        process.departure.on_notice(Preemption(left_ns=5 * S, reason="again"))
        assert process.said == [DONE, LEAVING]
        assert process.has_ended

    process.chunk(2, told)


def test_sources_are_asked_until_one_says_so() -> None:
    process, asked = Process(), list[int]()

    class Third:
        def look(self) -> Preemption | None:
            return Preemption(left_ns=0, reason="why") if len(asked) == 2 else None

    watch([Third()], process.departure, pause=asked.append, every_ns=7)
    assert asked == [7, 7, 7]
    assert process.has_ended


class PreemptedEngine(InlineEngine):
    """So many workers are told to leave, and drop their chunk."""

    preempted = 0
    left = 10

    def _work(self) -> WorkerEvent:
        if self.preempted == self.left:
            return super()._work()
        self.preempted += 1
        worker, assignment = self._assigned.popleft()
        self.assigned.append((worker, assignment.chunk))
        self._events.append(WorkerSaid(worker=worker, message=LEAVING))
        return WorkerLost(worker=worker, reason="left")


@pytest.mark.field_fault("B-16")
def test_ten_preemptions_use_nothing_up(tmp_path: Path) -> None:
    place, parts = new_place(tmp_path, ROWS, row_group_rows=10), parts_with()
    record = submit(place.submission(chunk_rows=ROWS), store_url=place.store, parts=parts)
    engine = PreemptedEngine(inline_engine(parts)._build)
    drive(record, parts, tmp_path / "cache", engine=engine)
    assert len(engine.assigned) == 10 + 1 > RETRY_LIMIT
    assert_each_row_once(place.output, ROWS)


class Told(LocalEngine):
    """Real processes, of which the first is sent SIGTERM as soon as it is ready."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "tidegate_batch.main.worker"])
        self.seen: list[object] = []

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        event = super().next_event(timeout_ns)
        is_first = not any(isinstance(seen, Ready) for seen in self.seen)
        if isinstance(event, WorkerSaid) and isinstance(event.message, Ready) and is_first:
            os.kill(event.message.pid, signal.SIGTERM)
        if isinstance(event, WorkerSaid):
            self.seen.append(event.message)
        elif event is not None:
            self.seen.append(event)
        return event


def test_a_worker_that_is_sent_sigterm_says_so_and_leaves(tmp_path: Path) -> None:
    place = new_place(tmp_path, ROWS, row_group_rows=10)
    parts, engine = parts_with(), Told()
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    drive(record, parts, tmp_path / "cache", engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert Leaving(reason="SIGTERM") in engine.seen
    ends = [event.reason for event in engine.seen if isinstance(event, WorkerLost)]
    assert ends[0].startswith("exit status 0")


def test_a_ray_worker_looks_before_each_chunk_and_leaves(tmp_path: Path) -> None:
    from tidegate_batch.pipeline.engines.ray import RayEngine  # noqa: PLC0415 - heavy, for one test

    place, parts = new_place(tmp_path, ROWS, row_group_rows=10), parts_with()
    record = submit(place.submission(chunk_rows=ROWS), store_url=place.store, parts=parts)
    notice = tmp_path / "preempted"
    notice.write_text("")

    class Told(RayEngine):
        """The notice is withdrawn as soon as a worker has obeyed it."""

        def next_event(self, timeout_ns: int) -> WorkerEvent | None:
            event = super().next_event(timeout_ns)
            if isinstance(event, WorkerLost):
                notice.unlink(missing_ok=True)
                lost.append(event.reason)
            return event

    lost: list[str] = []
    crew = crew_with(Told(build_scorer, cores=1, workers=1), tmp_path / "cache", workers=1)
    told = dataclasses.replace(crew, notice=NoticeSetup(file=str(notice)))
    seat = take_seat(record, this_process(), parts)
    JobDriver(seat, parts=parts, display=SilentDisplay()).run(told)
    assert_each_row_once(place.output, ROWS)
    assert lost == [f"{notice} is there"]


class SilentEngine(InlineEngine):
    """The first worker that is given the last chunk never says a word again."""

    silent: int | None = None

    def _work(self) -> WorkerEvent:
        worker, assignment = self._assigned[0]
        if assignment.chunk == "000005" and self.silent is None:
            self.silent = worker
            self._assigned.popleft()
            self._pause(S)  # which nobody can tell from work that takes long
            return WorkerSaid(worker=-1, message=Leaving(reason="of no worker"))
        self._pause(S // 10)
        return super()._work()


@pytest.mark.field_fault("B-02")
def test_a_worker_that_falls_silent_over_the_last_chunk_is_overtaken(tmp_path: Path) -> None:
    place, clock = new_place(tmp_path, ROWS, row_group_rows=10), SteppingClock()
    parts = parts_with(clock=clock)
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    engine = SilentEngine(inline_engine(parts)._build, pause=parts.pause)
    drive(record, parts, tmp_path / "cache", engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert clock.now_ns() < 10 * S < CHUNK_LEASE_NS
