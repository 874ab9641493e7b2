"""A version that is measured while others serve leaves the machine to them most of the time."""

import asyncio

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS
from tests.fakes.loop_clock import LoopClock
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.core.sweep import POWERS_OF_TWO, SweepLimits
from tidegate_realtime.runtime.warm_up import measure

pytestmark = pytest.mark.looptime


async def measured(rest_ratio: float) -> tuple[dict[int, list[int]], float, float]:
    """Return the times by rows, how long it took, and how much of that the model was busy."""
    backend = FakeBackend(took_s=lambda rows: 0.008 + 0.001 * rows)
    limits = SweepLimits(
        budget_ns=ms_to_ns(500),
        sizes=POWERS_OF_TWO,
        objective_ns=Nanoseconds(ms_to_ns(100)),
    )
    began_s = asyncio.get_running_loop().time()
    runs = await measure(backend, NUMBERS, limits, LoopClock(), rest_ratio=rest_ratio)
    took_s = asyncio.get_running_loop().time() - began_s
    busy_s = sum(0.008 + 0.001 * rows for rows in backend.rows)
    return {rows: list(times) for rows, times in runs.items()}, took_s, busy_s


@pytest.mark.field_fault("S-48")
async def test_the_same_is_measured_in_a_quarter_of_the_time_and_the_rest_is_left_to_others() -> (
    None
):
    runs, took_s, busy_s = await measured(0.0)
    gentle_runs, gentle_took_s, gentle_busy_s = await measured(3.0)
    assert took_s == pytest.approx(busy_s)
    assert gentle_runs == runs
    assert gentle_busy_s == pytest.approx(busy_s)
    assert gentle_took_s == pytest.approx(4 * busy_s)
