"""At high load for long, with callers who leave and callers who have too little time."""

import asyncio
from random import Random

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, in_ms, numbers
from tests.fakes.loop_clock import LoopClock
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime

MINUTES = 30
RATE = 0.9 * 16 / 3.6
"""Requests a second: 90 % of what calls of 16 rows carry, each of 2 s and 0.1 for each row."""


@pytest.mark.field_fault("S-46")
async def test_after_half_an_hour_of_timeouts_and_cancels_as_many_are_answered_as_before() -> None:
    backend = FakeBackend(took_s=lambda rows: 2.0 + 0.1 * rows)
    driver = BatchDriver(
        backend,
        signature=NUMBERS,
        limits=BatchLimits(memory_rows=16),
        clock=LoopClock(),
        name="risk@7",
        promise=Promise(slo_ns=ms_to_ns(10_000)),
    )
    await driver.warm_up()
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
