"""Models of one process on executors that they share."""

import asyncio

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, answers, outcomes_of, send
from tests.fakes.loop_clock import LoopClock
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Expired, Rejected
from tidegate_realtime.runtime.promise import Promise
from tidegate_realtime.runtime.sharing import SharedExecutors

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Watched:
    """Counts how many calls of all its backends run at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    def backend(self, took_s: float) -> FakeBackend:
        def took(rows: int) -> float:
            self.running += 1
            self.most = max(self.most, self.running)
            asyncio.get_running_loop().call_later(took_s, self._end)
            return took_s

        return FakeBackend(took_s=took)

    def _end(self) -> None:
        self.running -= 1


async def driver_on(
    backend: FakeBackend, shared: SharedExecutors, *, slo_ms: float = 1_000
) -> BatchDriver:
    driver = BatchDriver(
        backend,
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=LoopClock(),
        name="risk@7",
        promise=Promise(slo_ns=ms_to_ns(slo_ms), sizes=(1, 2, 4)),
    )
    driver.share(shared)
    await driver.warm_up()
    backend.begun.clear()
    return driver


async def test_two_models_on_one_executor_run_one_after_the_other() -> None:
    shared, watched = SharedExecutors(1), Watched()
    first = await driver_on(watched.backend(0.010), shared)
    second = await driver_on(watched.backend(0.010), shared)
    watched.most, began_s = 0, now_s()
    tickets = [send(driver, first=3, within_ms=1_000) for driver in (first, second) * 10]
    for outcome in await outcomes_of(*tickets):
        assert answers(outcome) == [3]
    assert watched.most == 1
    calls = sum(sum(each.statistics().batches_by_rows.values()) for each in (first, second))
    assert now_s() - began_s == pytest.approx(calls * 0.010)  # and the executor was never idle


async def test_two_models_on_two_executors_do_not_wait_for_each_other() -> None:
    shared, watched = SharedExecutors(2), Watched()
    first = await driver_on(watched.backend(0.010), shared)
    second = await driver_on(watched.backend(0.010), shared)
    watched.most, began_s = 0, now_s()
    await outcomes_of(*(send(driver) for driver in (first, second)))
    assert watched.most == 2
    assert now_s() - began_s == pytest.approx(0.010)


async def test_an_executor_that_one_model_leaves_is_given_to_the_one_that_waits() -> None:
    shared, watched = SharedExecutors(1), Watched()
    busy = await driver_on(watched.backend(0.100), shared)
    waiting = await driver_on(watched.backend(0.010), shared)
    left, behind, began_s = send(busy), send(waiting, first=5), now_s()
    await asyncio.sleep(0.020)
    busy.cancel(left)  # its call is terminated, and nothing of the other model tells
    assert answers(await behind) == [5]
    assert now_s() - began_s == pytest.approx(0.030)


@pytest.mark.field_fault("S-31")
async def test_a_model_that_hangs_gives_the_executor_up_for_the_others() -> None:
    shared = SharedExecutors(1)
    stuck = FakeBackend(took_s=0.010, can_terminate=False)
    hanging = await driver_on(stuck, shared)
    waiting = await driver_on(FakeBackend(took_s=0.010), shared)
    stuck.took_s = 1_000_000.0
    began_s = now_s()
    assert isinstance(await send(hanging, within_ms=300), Expired)
    refused = await send(waiting, within_ms=100)
    assert isinstance(refused, Rejected)
    assert refused.code == "backend_unavailable"
    patient = waiting.submit(
        {"input": stuck.begun[0].inputs["input"]},
        rows=1,
        deadline_at_ns=ms_to_ns((began_s + 60) * 1_000),
        sheddable=False,
    )
    assert isinstance(await patient, Answered)
    assert now_s() - began_s == pytest.approx(5.010)


async def test_a_model_that_was_closed_leaves_its_turn_to_the_others() -> None:
    shared = SharedExecutors(1)
    first = await driver_on(FakeBackend(took_s=0.010), shared)
    second = await driver_on(FakeBackend(took_s=0.010), shared)
    ticket = send(first)
    await first.aclose()
    await first.aclose()
    assert isinstance(await ticket, Answered)
    assert len(shared.turns.seats) == 1
    assert isinstance(await send(second), Answered)
    await second.aclose()
    assert shared.turns.seats == []
    assert shared.turns.idle == 1
