"""Requests that end before their batch does: the deadline passed, or the caller left."""

import asyncio
from collections.abc import Callable
from itertools import combinations
from random import Random

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import (
    NUMBERS,
    answers,
    build_driver,
    numbers,
    outcome_of,
    outcomes_of,
    send,
)
from tests.fakes.loop_clock import LoopClock
from tidegate.units import Nanoseconds, ms_to_ns, seconds_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Cancelled, Expired
from tidegate_realtime.runtime.ticket import Ticket

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.field_fault("S-25", "S-29")
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_an_expired_request_is_answered_in_time_and_never_runs(place: int) -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    running = send(driver, first=99)
    budgets = [500, 500, 500]
    budgets[place] = 40
    waiting = [send(driver, first=i, within_ms=ms) for i, ms in enumerate(budgets)]

    late = await waiting[place]
    assert now_s() == 0.040
    assert late == Expired(
        queued_ns=ms_to_ns(40), executed_ns=Nanoseconds(0), limit_ns=ms_to_ns(40)
    )
    await outcomes_of(running, *waiting)
    assert backend.rows == [1, 2]
    assert place not in backend.begun[1].inputs["input"]


@pytest.mark.field_fault("S-30", "S-37")
async def test_a_model_call_that_stalls_does_not_hold_its_caller() -> None:
    backend = FakeBackend(took_s=3.0, can_terminate=False)
    driver = build_driver(backend)
    stalled = send(driver, within_ms=1_000)
    behind = send(driver, within_ms=10_000)
    assert await stalled == Expired(
        queued_ns=Nanoseconds(0), executed_ns=ms_to_ns(1_000), limit_ns=ms_to_ns(1_000)
    )
    assert now_s() == 1.0
    # The call goes on, because this backend cannot stop it; its rows are dropped when it ends.
    assert backend.begun[0].terminations == 1
    assert driver.statistics().batches_running == 1
    outcome = await behind
    assert isinstance(outcome, Answered)
    assert outcome.queued_ns == ms_to_ns(3_000)
    assert now_s() == 6.0


async def test_a_request_in_pieces_expires_whole_and_its_waiting_rows_never_run() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    outcome = await send(driver, rows=96, within_ms=150)
    assert now_s() == 0.150
    assert outcome == Expired(
        queued_ns=Nanoseconds(0), executed_ns=ms_to_ns(150), limit_ns=ms_to_ns(150)
    )
    await asyncio.sleep(1)
    assert backend.rows == [32, 32]


async def test_a_request_that_is_late_on_arrival_does_not_run() -> None:
    backend = FakeBackend()
    driver = build_driver(backend)
    assert isinstance(await send(driver, within_ms=0), Expired)
    assert backend.rows == []


@pytest.mark.field_fault("S-26", "S-35")
async def test_a_caller_that_leaves_the_queue_is_never_executed() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    running, waiting = send(driver), send(driver)
    driver.cancel(waiting)
    driver.cancel(waiting)  # once more changes nothing
    assert await waiting == Cancelled()
    await running
    assert backend.rows == [1]
    assert driver.statistics().cancelled == 1


async def test_cancelling_what_has_ended_changes_nothing() -> None:
    driver = build_driver()
    ticket = send(driver, first=7)
    await ticket
    driver.cancel(ticket)
    assert answers(await ticket) == [7]
    assert driver.statistics().answered == 1


@pytest.mark.field_fault("S-26")
async def test_a_caller_whose_await_is_cancelled_has_left() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    running, waiting = send(driver), send(driver)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.020):
            await waiting
    assert now_s() == 0.020
    assert driver.statistics().cancelled == 1
    await running
    assert backend.rows == [1]


SUBSETS = [who for size in range(1, 5) for who in combinations(range(4), size)]


@pytest.mark.field_fault("S-34")
@pytest.mark.parametrize("leaving", SUBSETS)
@pytest.mark.parametrize("by_await", [True, False])
async def test_members_that_leave_a_running_batch_leave_their_mates_unharmed(
    leaving: tuple[int, ...], by_await: bool
) -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    first = send(driver)
    tickets = [send(driver, first=number) for number in range(4)]
    async with asyncio.TaskGroup() as callers:
        waits = [callers.create_task(outcome_of(ticket)) for ticket in tickets]
        await first
        await asyncio.sleep(0.050)
        assert backend.rows == [1, 4]
        for who in leaving:
            waits[who].cancel() if by_await else driver.cancel(tickets[who])
    for who, wait in enumerate(waits):
        if who not in leaving:
            assert answers(wait.result()) == [who]
        elif by_await:
            assert wait.cancelled()
        else:
            assert wait.result() == Cancelled()
    assert now_s() == pytest.approx(0.200 if len(leaving) < 4 else 0.150)
    assert driver.statistics().cancelled == len(leaving)
    assert answers(await send(driver, first=8)) == [8]


def leave_pending(ticket: Ticket) -> None:
    """Nobody ever awaits it."""


def cancel_future(ticket: Ticket) -> None:
    ticket.future.cancel()


def complete_future(ticket: Ticket) -> None:
    ticket.future.set_result(Cancelled())


def fail_future(ticket: Ticket) -> None:
    ticket.future.set_exception(RuntimeError("not ours"))
    ticket.future.exception()  # seen, so that nobody complains that it was not


@pytest.mark.field_fault("S-32")
@pytest.mark.parametrize("spoil", [leave_pending, cancel_future, complete_future, fail_future])
@pytest.mark.parametrize("ending", ["answered", "expired", "cancelled"])
async def test_the_driver_survives_any_state_of_a_callers_future(
    spoil: Callable[[Ticket], None], ending: str
) -> None:
    driver = build_driver(FakeBackend(took_s=0.100))
    spoiled = send(driver, within_ms=50 if ending == "expired" else 1_000)
    spoil(spoiled)
    if ending == "cancelled":
        driver.cancel(spoiled)
    assert answers(await send(driver, first=3)) == [3]
    statistics = driver.statistics()
    assert getattr(statistics, ending) == (2 if ending == "answered" else 1)
    assert statistics.unaccounted == 0


@pytest.mark.field_fault("S-33")
async def test_after_a_minute_of_random_cancels_everything_is_as_before() -> None:
    random = Random(33)
    backend = FakeBackend(took_s=0.050)
    driver = build_driver(backend, cap_rows=8)
    loop = asyncio.get_running_loop()

    async def rate_over(seconds: float, *, leaving: float) -> float:
        answered, began_s = driver.statistics().answered, now_s()
        while now_s() < began_s + seconds:
            ticket = send(driver, rows=random.randint(1, 10), within_ms=1_000)
            if random.random() < leaving:
                loop.call_later(random.random() * 0.5, driver.cancel, ticket)
            await asyncio.sleep(0.030)  # above capacity, so that many wait
        return (driver.statistics().answered - answered) / seconds

    before = await rate_over(20, leaving=0)
    await rate_over(60, leaving=0.3)
    after = await rate_over(20, leaving=0)
    assert after == pytest.approx(before, rel=0.05)
    await driver.aclose()
    statistics = driver.statistics()
    assert statistics.cancelled > 400
    assert statistics.waiting == statistics.running == statistics.unaccounted == 0


class SlowClock:
    """Loses one millisecond in a hundred against the loop, so that each timer comes early."""

    def now_ns(self) -> Nanoseconds:
        return seconds_to_ns(now_s() * 0.99)


async def test_a_timer_that_comes_early_is_set_again() -> None:
    driver = BatchDriver(
        FakeBackend(took_s=1.0),
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=SlowClock(),
        name="echo@1",
    )
    outcome = await driver.submit(numbers(1), rows=1, deadline_at_ns=ms_to_ns(50))
    assert isinstance(outcome, Expired)
    assert now_s() == pytest.approx(0.051)


class CountingClock(LoopClock):
    """Counts how often the driver looks at it, which it does whenever anything happens."""

    reads = 0

    def now_ns(self) -> Nanoseconds:
        self.reads += 1
        return super().now_ns()


async def test_nothing_happens_once_everything_has_ended() -> None:
    clock = CountingClock()
    driver = BatchDriver(
        FakeBackend(took_s=0.010),
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=clock,
        name="echo@1",
    )
    await driver.submit(numbers(1), rows=1, deadline_at_ns=ms_to_ns(50))
    reads = clock.reads
    await asyncio.sleep(60)
    assert clock.reads == reads
