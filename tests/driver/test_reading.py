"""Reading on threads, each job in time or not at all, on virtual time: 80 ms each, one thread."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.fakes.loop_clock import LoopClock
from tests.fakes.readers import VirtualExecutor, virtual_readers
from tidegate.oip.errors import BadOptionError
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.core.reading import Unread
from tidegate_realtime.runtime.outcomes import Cancelled, Expired, Rejected
from tidegate_realtime.runtime.reading import NotRead, Read, Reading

pytestmark = pytest.mark.looptime


@dataclass
class Running:
    reading: Reading
    executor: VirtualExecutor
    read: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    """What callers have left behind on a thread, and is still counted."""

    def send(
        self, name: str, *, within_ms: float = 200, decode: Callable[[], str] | None = None
    ) -> Read[str]:
        now_ns = LoopClock().now_ns()
        unread = Unread("photo", now_ns, Nanoseconds(now_ns + ms_to_ns(within_ms)), ms_to_ns(10))

        def decoded() -> str:
            self.read.append(name)
            return name

        def hold() -> Callable[[], None]:
            self.held.append(name)
            return lambda: self.held.remove(name)

        return self.reading.submit(decode or decoded, unread, name="pages@1", hold=hold)


@asynccontextmanager
async def reading(*, threads: int = 1, is_warm: bool = True) -> AsyncIterator[Running]:
    readers, executor = virtual_readers(0.080, threads=threads)
    it = Running(Reading(readers, clock=LoopClock()), executor)
    if is_warm:
        assert await it.send("first") == "first"
        it.read.clear()
        executor.begun = 0
    try:
        yield it
    finally:
        await it.reading.aclose()
        assert it.held == []
        assert it.reading.waiting == 0


async def outcome(read: Read[str]) -> tuple[str | NotRead, float]:
    """Return what became of it, and after how many milliseconds."""
    loop = asyncio.get_running_loop()
    began_at_s = loop.time()
    found = await read
    return found, round((loop.time() - began_at_s) * 1_000, 3)


async def test_jobs_are_read_in_their_order_and_who_would_be_late_is_told_at_once() -> None:
    async with reading() as it:
        found = await asyncio.gather(*(outcome(it.send(name)) for name in "abcd"))
        assert found[:2] == [("a", 80), ("b", 160)]
        for refused, took_ms in found[2:]:
            assert isinstance(refused, Rejected)
            assert (refused.code, took_ms) == ("deadline_unreachable", 0)
            assert (refused.predicted_ms, refused.slo_ms) == (250, 200)
            assert refused.retry_after_ms == 50
            assert refused.message == (
                "pages@1 needs about 250.0 ms, most of it to decode texts or images (2 requests "
                "are ahead), but the request allows 200.0 ms."
            )
        assert (it.read, it.executor.most_running) == (["a", "b"], 1)


async def test_more_threads_read_more_at_a_time_and_no_more_than_there_are() -> None:
    async with reading(threads=2) as it:
        found = await asyncio.gather(*(outcome(it.send(name)) for name in "abcdef"))
        assert [took_ms for _, took_ms in found] == [80, 80, 160, 0, 0, 0]
        assert it.executor.most_running == 2


async def test_of_a_burst_of_which_nothing_is_known_only_those_are_read_who_can_be_answered() -> (
    None
):
    async with reading(is_warm=False) as it:
        found = await asyncio.gather(*(outcome(it.send(str(i))) for i in range(100)))
        assert [took_ms for _, took_ms in found] == [80, 160] + [160] * 98
        assert all(isinstance(each, Rejected) for each, _ in found[2:])
        assert it.executor.begun == 2


async def test_whoever_is_late_in_the_queue_is_told_at_the_deadline_and_never_read() -> None:
    async with reading(is_warm=False) as it:
        it.executor.takes_s = 1.0
        running, waiting = it.send("runs", within_ms=2_000), it.send("waits")
        late, took_ms = await outcome(waiting)
        assert isinstance(late, Expired)
        assert (took_ms, late.limit_ns, late.is_read) == (200, ms_to_ns(200), False)
        assert it.held == []  # it waited, and is gone
        assert await running == "runs"
        assert it.read == ["runs"]


async def test_whoever_is_late_while_being_read_is_told_at_the_deadline_and_stays_counted() -> None:
    async with reading() as it:
        it.executor.takes_s = 1.0
        late, took_ms = await outcome(it.send("slow"))
        assert isinstance(late, Expired)
        assert (took_ms, it.held) == (200, ["slow"])
        refused, took_ms = await outcome(it.send("too late", within_ms=80))
        assert isinstance(refused, Rejected)  # the thread is still busy
        await asyncio.sleep(0.81)
        assert it.held == []


async def test_whoever_leaves_the_queue_is_never_read() -> None:
    async with reading() as it:
        first, leaving = it.send("a"), it.send("b")
        leaving.cancel()
        leaving.cancel()
        assert isinstance(await leaving, Cancelled)
        assert await it.send("c") == "c"  # which takes his place
        assert await first == "a"
        assert it.read == ["a", "c"]


async def test_whoever_leaves_while_being_read_stays_counted_until_the_thread_is_done() -> None:
    async with reading() as it:
        leaving, staying = it.send("a"), it.send("b")
        await asyncio.sleep(0.010)
        leaving.cancel()
        assert isinstance(await leaving, Cancelled)
        assert it.held == ["a"]
        assert await staying == "b"
        assert it.held == []


async def test_cancelling_whoever_waits_is_leaving() -> None:
    async with reading() as it:
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(outcome(it.send(name))) for name in "ab"]
            await asyncio.sleep(0.010)
            for task in waiting:
                task.cancel()
        assert it.held == ["a"]
        await asyncio.sleep(0.080)
        assert (it.read, it.held) == (["a"], [])


async def test_what_decoding_raises_is_raised_to_its_caller_and_to_nobody_else() -> None:
    def refuse() -> str:
        raise BadOptionError("no image")

    async with reading() as it:
        refused, fine = it.send("bad", decode=refuse), it.send("fine")
        with pytest.raises(BadOptionError, match="no image"):
            await refused
        assert await fine == "fine"


async def test_what_is_raised_for_nobody_disturbs_nobody() -> None:
    def refuse() -> str:
        raise BadOptionError("no image")

    async with reading() as it:
        leaving = it.send("bad", decode=refuse)
        leaving.cancel()
        assert await it.send("fine") == "fine"


async def test_closing_refuses_who_waits_and_waits_for_who_is_read() -> None:
    async with reading() as it:
        begun, waiting = it.send("a"), it.send("b")
        async with asyncio.TaskGroup() as tasks:
            closing = tasks.create_task(it.reading.aclose())
            (refused, took_ms), (found, _) = await asyncio.gather(outcome(waiting), outcome(begun))
            assert isinstance(refused, Rejected)
            assert (refused.code, took_ms, found) == ("draining", 0, "a")
            await closing
        assert it.executor.is_shut_down
        late = await it.send("c")
        assert isinstance(late, Rejected)
        assert late.code == "draining"


async def test_closing_can_be_given_up_while_a_thread_hangs() -> None:
    async with reading() as it:
        it.executor.takes_s = 60
        late, took_ms = await outcome(it.send("hangs"))
        assert (type(late), took_ms) == (Expired, 200)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await it.reading.aclose()
        assert it.executor.is_shut_down
