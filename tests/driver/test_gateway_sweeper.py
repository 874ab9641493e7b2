"""What becomes of requests that take long, on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tidegate.clock import Clock
from tidegate.units import Nanoseconds
from tidegate_realtime.api.bodies import HeldBodies
from tidegate_realtime.api.errors import BodiesHeldError, UploadTooSlowError
from tidegate_realtime.api.sweeper import Sweeper

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def sweeping(clock: Clock | None = None) -> AsyncIterator[Sweeper]:
    sweeper = Sweeper(clock or LoopClock())
    task = asyncio.get_running_loop().create_task(sweeper.run())
    try:
        yield sweeper
    finally:
        task.cancel()


def begun(sweeper: Sweeper) -> FakeExchange:
    exchange = FakeExchange("POST", "/", began_at_ns=LoopClock().now_ns())
    sweeper.add(exchange)
    return exchange


async def test_a_quick_request_is_never_watched() -> None:
    async with sweeping() as sweeper:
        exchange = begun(sweeper)
        await asyncio.sleep(0.019)
        sweeper.remove(exchange)
        await asyncio.sleep(1)
        assert exchange.watched == 0


async def test_a_request_is_watched_once_it_is_20_ms_old_until_it_ends() -> None:
    async with sweeping() as sweeper:
        exchange = begun(sweeper)
        await asyncio.sleep(0.031)
        assert exchange.watched == 1
        await asyncio.sleep(10)
        assert exchange.watched == 1
        sweeper.remove(exchange)
        assert exchange.watched == 0


async def test_only_what_is_old_enough_is_watched() -> None:
    async with sweeping() as sweeper:
        old = begun(sweeper)
        await asyncio.sleep(0.015)
        young = begun(sweeper)
        await asyncio.sleep(0.016)
        assert (old.watched, young.watched) == (1, 0)
        await asyncio.sleep(0.02)
        assert young.watched == 1


async def read(exchange: FakeExchange) -> bytes:
    return await exchange.read(1000)


async def test_a_request_is_not_watched_while_its_body_is_coming() -> None:
    async with sweeping() as sweeper, asyncio.TaskGroup() as callers:
        exchange = FakeExchange.uploading("/", began_at_ns=LoopClock().now_ns())
        sweeper.add(exchange)
        exchange.came_bytes = 1 << 20
        reading = callers.create_task(read(exchange))
        await asyncio.sleep(30)
        assert exchange.watched == 0
        exchange.body.set_result(b"whole")
        assert await reading == b"whole"
        await asyncio.sleep(0.02)
        assert exchange.watched == 1
        assert not exchange.must_close


@pytest.mark.field_fault("P-40")
@pytest.mark.parametrize(
    ("came_bytes", "cut_after_s"),
    [
        (0, 5),  # nothing at all
        (5 * (16 << 10) - 1, 5),  # 16 KiB/s is the slowest that is borne with
        (10 * (16 << 10), 10),  # as long as that much, on average, has come
        (1 << 30, 60),  # however much, all of it must be there then
    ],
)
async def test_a_body_that_comes_too_slowly_is_cut(came_bytes: int, cut_after_s: float) -> None:
    async with sweeping() as sweeper:
        exchange = FakeExchange.uploading("/", began_at_ns=LoopClock().now_ns())
        exchange.came_bytes = came_bytes
        sweeper.add(exchange)
        with pytest.raises(UploadTooSlowError):
            await read(exchange)
        assert cut_after_s <= asyncio.get_running_loop().time() < cut_after_s + 0.02
        assert exchange.must_close
        await asyncio.sleep(0)  # the cut is over: nothing is cancelled a second time


async def test_a_body_is_held_until_its_request_ends() -> None:
    sweeper = Sweeper(LoopClock(), bodies=HeldBodies(limit_bytes=1_000))
    first, second = (FakeExchange("POST", "/", b"x" * 600) for _ in range(2))
    sweeper.add(first)
    sweeper.add(second)
    assert await read(first) == b"x" * 600
    with pytest.raises(BodiesHeldError, match="more than 1000 bytes together"):
        await read(second)
    sweeper.remove(second)
    assert sweeper.bodies.held_bytes == 600
    sweeper.remove(first)
    assert sweeper.bodies.held_bytes == 0
    assert BodiesHeldError.code == "queue_full"


async def test_a_task_that_is_cancelled_for_another_reason_stays_cancelled() -> None:
    async with sweeping() as sweeper:
        exchange = FakeExchange.uploading("/")
        sweeper.add(exchange)
        reading = asyncio.get_running_loop().create_task(read(exchange))
        await asyncio.sleep(0.1)
        reading.cancel()
        exchange.cut_upload()  # both at once
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_uploads_can_be_cut_at_once_and_nothing_else_is() -> None:
    async with sweeping() as sweeper:
        uploading = FakeExchange.uploading("/")
        waiting = begun(sweeper)
        sweeper.add(uploading)
        reading = asyncio.get_running_loop().create_task(read(uploading))
        await asyncio.sleep(1)
        sweeper.cut_uploads()
        with pytest.raises(UploadTooSlowError):
            await reading
        sweeper.remove(uploading)
        assert sweeper.in_progress == 1
        sweeper.remove(waiting)
        await sweeper.idle()


class CountingClock(LoopClock):
    def __init__(self) -> None:
        self.asked = 0

    def now_ns(self) -> Nanoseconds:
        self.asked += 1
        return super().now_ns()


async def test_nothing_is_swept_while_nothing_is_in_progress() -> None:
    clock = CountingClock()
    async with sweeping(clock) as sweeper:
        exchange = begun(sweeper)
        await asyncio.sleep(0.055)
        sweeper.remove(exchange)
        swept = clock.asked
        assert swept == 5
        await asyncio.sleep(3_600)
        assert clock.asked <= swept + 1  # the one that was on its way
        await sweeper.idle()
