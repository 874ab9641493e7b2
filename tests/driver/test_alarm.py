"""The one timer of a driver, on virtual time: it rings when it shall, however often that moves."""

import asyncio

import pytest

from tests.fakes.loop_clock import LoopClock
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.runtime.alarm import Alarm

pytestmark = pytest.mark.looptime


class Bell:
    """An alarm, and every ring of it: what was asked for and what the time was, in ms."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.rings: list[tuple[int, int]] = []
        self.alarm = Alarm(self.clock, self.ring)
        self.began_ns = self.clock.now_ns()

    def ring(self, at_ns: Nanoseconds, now_ns: Nanoseconds) -> None:
        self.rings.append((self.ms(at_ns), self.ms(now_ns)))

    def ms(self, at_ns: int) -> int:
        return round((at_ns - self.began_ns) / ms_to_ns(1))

    def set(self, ms: float | None) -> None:
        at_ns = None if ms is None else Nanoseconds(self.began_ns + ms_to_ns(ms))
        self.alarm.set(at_ns, self.clock.now_ns())

    async def wait_until(self, ms: float) -> None:
        await asyncio.sleep(ms / 1_000 - (self.clock.now_ns() - self.began_ns) / ms_to_ns(1_000))


async def test_moved_later_with_every_batch_it_rings_once_and_on_time() -> None:
    bell = Bell()
    for batch in range(40):
        await bell.wait_until(10 * batch)
        bell.set(10 * batch + 100)  # fires at 100, 190, … and looks again
    await bell.wait_until(1_000)
    assert bell.rings == [(490, 490)]


async def test_moved_later_by_less_than_a_timer_is_early_it_is_on_time_too() -> None:
    bell = Bell()
    bell.set(100)
    bell.set(100.4)
    await bell.wait_until(100.3)
    assert not bell.rings
    await bell.wait_until(100.5)
    assert len(bell.rings) == 1


async def test_moved_earlier_it_rings_then_and_not_again() -> None:
    bell = Bell()
    bell.set(100)
    bell.set(300)
    bell.set(50)
    await bell.wait_until(1_000)
    assert bell.rings == [(50, 50)]


async def test_set_to_nothing_it_never_rings_until_it_is_set_again() -> None:
    bell = Bell()
    bell.set(100)
    bell.set(None)
    await bell.wait_until(200)
    assert not bell.rings
    bell.set(300)
    await bell.wait_until(1_000)
    assert bell.rings == [(300, 300)]
