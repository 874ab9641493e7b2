"""At high load for long, with callers who leave, have too little time, or come again and again."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, in_ms, numbers
from tests.fakes.loop_clock import LoopClock
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime

MINUTES = 30
RATE = 0.9 * 16 / 3.6
"""Requests a second: 90 % of what calls of 16 rows carry, each of 2 s and 0.1 for each row."""


async def warmed_up(took_s: Callable[[int], float], *, slo_ms: float) -> BatchDriver:
    driver = BatchDriver(
        FakeBackend(took_s=took_s),
        signature=NUMBERS,
        limits=BatchLimits(memory_rows=16),
        clock=LoopClock(),
        name="risk@7",
        promise=Promise(slo_ns=ms_to_ns(slo_ms)),
    )
    await driver.warm_up()
    return driver


@pytest.mark.field_fault("S-46")
async def test_after_half_an_hour_of_timeouts_and_cancels_as_many_are_answered_as_before() -> None:
    driver = await warmed_up(lambda rows: 2.0 + 0.1 * rows, slo_ms=10_000)
    random, loop = Random(46), asyncio.get_running_loop()
    per_minute: list[int] = []
    for _ in range(MINUTES):
        before = driver.statistics().answered
        for number in range(round(60 * RATE)):
            within_ms = 2_500 if number % 20 == 0 else 10_000  # hardly one call fits into that
            ticket = driver.submit(numbers(1), rows=1, deadline_at_ns=in_ms(within_ms))
            if number % 10 == 5:
                loop.call_later(random.random() * 5, driver.cancel, ticket)
            await asyncio.sleep(1 / RATE)
        per_minute.append(driver.statistics().answered - before)
    await driver.aclose()
    statistics = driver.statistics()
    assert statistics.cancelled > 300
    assert statistics.expired + statistics.rejected > 300
    assert statistics.waiting == statistics.running == statistics.unaccounted == 0
    third = MINUTES // 3
    assert sum(per_minute[-third:]) == pytest.approx(sum(per_minute[:third]), rel=0.02)


@pytest.mark.field_fault("S-28", "S-35")
@pytest.mark.parametrize("patience_ms", [150, 80])
async def test_clients_who_try_again_three_times_leave_as_much_answered(patience_ms: float) -> None:
    """They come twice as often as can be answered, and say how long they wait, or wait as usual."""
    driver = await warmed_up(lambda rows: 0.020 + 0.001 * rows, slo_ms=150)
    random, answered, capacity = Random(35), 0, 16 / 0.036
    executed_before = executed(driver)

    async def ask_again_and_again() -> None:
        nonlocal answered
        for _ in range(1 + 3):
            ticket = driver.submit(numbers(1), rows=1, deadline_at_ns=in_ms(patience_ms))
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_ms / 1_000):
                    if isinstance(await ticket, Answered):
                        answered += 1
                        return
            driver.cancel(ticket)
            await asyncio.sleep(0.005 * random.random())

    began_s = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as callers:
        for _ in range(2_000):
            callers.create_task(ask_again_and_again())
            await asyncio.sleep(random.expovariate(2 * capacity))
    seconds = asyncio.get_running_loop().time() - began_s
    await driver.aclose()
    assert answered >= 0.9 * capacity * seconds
    assert answered >= 0.95 * (executed(driver) - executed_before)  # hardly any work for nobody
    assert driver.statistics().unaccounted == 0


def executed(driver: BatchDriver) -> int:
    """Return how many rows were in model calls."""
    sizes = driver.statistics().batches_by_rows
    return sum(rows * batches for rows, batches in sizes.items())
