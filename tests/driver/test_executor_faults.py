"""Calls that nobody waits for, calls that hang, and what becomes of their executors."""

import asyncio
import threading
from random import Random

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, answers, build_driver, numbers, outcomes_of, send
from tests.fakes.loop_clock import LoopClock
from tidegate.clock import ManualClock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import RunControl
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.backends.onnx import OnnxBackend, RunnableModel
from tidegate_realtime.core.commands import Batch, GiveUp
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.calls import Calls
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Cancelled, Expired, Failed, Rejected
from tidegate_realtime.runtime.ports import Backend, BatchResult
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime

FOREVER_S = 1_000_000.0


def now_s() -> float:
    return asyncio.get_running_loop().time()


def code(outcome: object) -> str:
    assert isinstance(outcome, Rejected), outcome
    return outcome.code


async def warmed_up(backend: Backend, *, slo_ms: float = 100) -> BatchDriver:
    driver = BatchDriver(
        backend,
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=LoopClock(),
        name="risk@7",
        promise=Promise(slo_ns=ms_to_ns(slo_ms)),
    )
    await driver.warm_up()
    return driver


async def fake_warmed_up(**how: object) -> tuple[FakeBackend, BatchDriver]:
    """A model of which a call takes 1 ms and one for each row, until ``took_s`` is changed."""
    backend = FakeBackend(**how)  # type: ignore[arg-type] # whatever it takes
    backend.took_s = lambda rows: (1 + rows) / 1_000
    driver = await warmed_up(backend)
    backend.begun.clear()
    return backend, driver


@pytest.mark.field_fault("S-35")
async def test_a_call_that_nobody_waits_for_ends_and_its_executor_is_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend = FakeBackend(took_s=3.0)
    driver = build_driver(backend)
    left, behind = send(driver), send(driver, first=7)
    await asyncio.sleep(1)
    driver.cancel(left)
    assert await left == Cancelled()
    assert answers(await behind) == [7]
    assert now_s() == 4.0  # it began when the first call was stopped
    assert [batch.terminations for batch in backend.begun] == [1, 0]
    statistics = driver.statistics()
    assert (statistics.batches_terminated, statistics.failed) == (1, 0)
    assert "batch_failed" not in capsys.readouterr().err


@pytest.mark.field_fault("S-34")
async def test_a_call_goes_on_as_long_as_somebody_waits_for_it() -> None:
    backend = FakeBackend(took_s=1.0)
    driver = build_driver(backend)
    running = send(driver)
    four = [send(driver, first=place) for place in range(4)]
    await running
    for ticket in four[:3]:
        driver.cancel(ticket)
    assert backend.begun[1].terminations == 0
    assert answers(await four[3]) == [3]


async def test_a_terminated_call_teaches_that_it_takes_at_least_so_long_and_no_other_time() -> None:
    backend, driver = await fake_warmed_up()
    assert driver.latency_model is not None
    before = driver.latency_model.statistics().samples_by_size[1]
    driver.cancel(send(driver))  # at once: that a call takes no time was not learned
    await asyncio.sleep(1)
    assert driver.latency_model.statistics().samples_by_size[1] == before
    backend.took_s = 3.0
    assert isinstance(await send(driver, within_ms=500), Expired)
    await asyncio.sleep(1)
    assert backend.begun[-1].terminations == 1
    assert driver.latency_model.statistics().samples_by_size[1] == before + 1
    assert driver.latency_model.tail_ns(1) > ms_to_ns(100)  # it was 2


@pytest.mark.field_fault("S-30", "S-31")
async def test_an_executor_that_hangs_is_replaced_and_everybody_gets_some_answer() -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_takes_s=2.0)
    backend.took_s = FOREVER_S
    began_s = now_s()
    stalled, patient = send(driver, within_ms=100), send(driver, within_ms=20_000)
    assert isinstance(await stalled, Expired)  # its deadline covers the call
    assert round(now_s() - began_s, 3) == 0.100
    assert code(await send(driver)) == "backend_unavailable"  # 3 times what was promised
    backend.took_s = 0.001
    outcome = await patient
    assert isinstance(outcome, Answered)  # it had waited in the queue, and was not in that call
    assert round(now_s() - began_s, 3) == 7.001  # 5 s, 2 s to replace, and its own call
    assert driver.is_available
    assert isinstance(await send(driver), Answered)
    statistics = driver.statistics()
    assert (statistics.executors_given_up, statistics.executors_usable) == (1, 1)
    assert len(backend.replaced) == 1


@pytest.mark.field_fault("S-31")
async def test_who_waits_longer_than_a_call_may_hang_is_told_that_it_failed() -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_takes_s=2.0)
    backend.took_s = FOREVER_S
    outcome = await send(driver, within_ms=60_000)
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == (
        "the call of 1 rows has run for 5000 ms, far longer than any before, and was given up; "
        "its executor is being replaced"
    )
    assert not driver.is_available
    refused = await send(driver)
    assert code(refused) == "backend_unavailable"
    await asyncio.sleep(2)
    assert driver.is_available


async def test_what_a_given_up_call_still_comes_to_is_nobodys_business(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend, driver = await fake_warmed_up(can_terminate=False)
    backend.took_s = 8.0
    hung = send(driver, within_ms=60_000)
    assert isinstance(await hung, Failed)
    backend.took_s = 0.001
    await asyncio.sleep(0.1)
    assert answers(await send(driver, first=3)) == [3]
    await asyncio.sleep(10)  # now it has ended
    assert backend.begun[0].finished
    assert not caplog.records  # where the loop would write what a callback raised
    statistics = driver.statistics()
    assert (statistics.arrived, statistics.answered, statistics.failed) == (2, 1, 1)
    assert statistics.batches_running == 0
    assert answers(await send(driver, first=4)) == [4]


async def test_an_executor_that_cannot_be_replaced_is_asked_for_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_fails=2)
    backend.took_s = FOREVER_S
    began_s = now_s()
    assert isinstance(await send(driver, within_ms=60_000), Failed)
    backend.took_s = 0.001
    await asyncio.sleep(9.9)
    assert code(await send(driver)) == "backend_unavailable"
    await asyncio.sleep(0.2)
    assert isinstance(await send(driver), Answered)
    assert round(now_s() - began_s) == 15  # 5 s, and twice 5 s until the next try
    err = capsys.readouterr().err
    assert err.count("executor_given_up") == err.count("executor_replaced") == 1
    assert err.count("executor_not_replaced") == 2


async def test_nobody_asks_for_an_executor_when_the_driver_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_fails=1_000)
    backend.took_s = FOREVER_S
    assert isinstance(await send(driver, within_ms=60_000), Failed)
    await asyncio.sleep(12)
    await driver.aclose()
    assert capsys.readouterr().err.count("executor_not_replaced") == 3
    backend.replacing_fails = 0
    await asyncio.sleep(60)
    assert "executor_not_replaced" not in capsys.readouterr().err
    assert backend.replaced == []


async def test_an_executor_that_comes_when_the_driver_is_closed_is_nobodys_business() -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_takes_s=30.0)
    backend.took_s = FOREVER_S
    assert isinstance(await send(driver, within_ms=60_000), Failed)
    await driver.aclose()
    await asyncio.sleep(60)
    assert driver.statistics().executors_usable == 0


@pytest.mark.parametrize("closes_at_s", [1, 20])
async def test_closing_does_not_wait_for_an_executor_that_may_never_come(closes_at_s: int) -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_fails=1_000)
    backend.took_s = FOREVER_S
    hung = send(driver, within_ms=60_000)
    record = driver.submit(numbers(1), rows=1, deadline_at_ns=Nanoseconds(0), sheddable=False)
    await asyncio.sleep(closes_at_s)
    async with asyncio.timeout(6):  # until the call that hangs is given up
        await driver.aclose()
    assert isinstance(await hung, Failed)
    assert code(await record) == "backend_unavailable"
    assert driver.statistics().unaccounted == 0


async def test_one_of_two_executors_hangs_and_the_other_one_goes_on() -> None:
    backend, driver = await fake_warmed_up(
        can_terminate=False, executors=2, replacing_takes_s=1_000.0
    )
    backend.took_s = FOREVER_S
    hung = send(driver, within_ms=60_000)
    backend.took_s = 0.001
    assert isinstance(await send(driver), Answered)
    assert isinstance(await hung, Failed)
    assert driver.is_available
    assert isinstance(await send(driver), Answered)
    assert driver.statistics().executors_usable == 1


async def test_records_of_a_stream_wait_for_the_other_executor() -> None:
    backend, driver = await fake_warmed_up(can_terminate=False, replacing_takes_s=2.0)
    backend.took_s = FOREVER_S
    hung = send(driver, within_ms=60_000)
    record = driver.submit(numbers(1, 5), rows=1, deadline_at_ns=Nanoseconds(0), sheddable=False)
    assert isinstance(await hung, Failed)
    backend.took_s = 0.001
    assert answers(await record) == [5]


class Blocking:
    """A model of which a call blocks its thread on an event, once told to."""

    signature = NUMBERS

    def __init__(self, event: threading.Event) -> None:
        self.event = event
        self.blocks = False
        self.reopens = 0

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        if self.blocks:
            assert self.event.wait(60)
        return {"output": inputs["input"]}

    def reopened(self) -> RunnableModel:
        self.reopens += 1
        return Blocking(self.event)


class Owner:
    """Takes what ``Calls`` tells, on the loop."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[tuple[Batch, BatchResult]] = asyncio.Queue()
        self.executor = asyncio.Event()

    def on_result(self, batch: Batch, result: BatchResult, ended_at_ns: Nanoseconds) -> None:
        self.results.put_nowait((batch, result))

    def on_executor(self) -> None:
        self.executor.set()


def batch() -> Batch:
    return Batch([], 1, "free")


@pytest.mark.field_fault("S-31")
async def test_a_thread_that_blocks_for_ever_is_replaced_by_another_one() -> None:
    event, before = threading.Event(), set(threading.enumerate())
    model, owner = Blocking(event), Owner()
    model.blocks = True
    calls = Calls(OnnxBackend(model), owner, clock=ManualClock(), name="risk@7")
    (thread,) = set(threading.enumerate()) - before
    calls.begin(hung := batch(), numbers(1, 3))
    calls.give_up(GiveUp(hung, ms_to_ns(5_000)))
    await owner.executor.wait()
    assert model.reopens == 1
    calls.begin(fine := batch(), numbers(1, 4))
    ended, result = await owner.results.get()
    assert ended is fine
    assert not isinstance(result, BackendError)
    assert result["output"].tolist() == [[4]]
    await calls.aclose()  # does not wait for the one that blocks
    assert thread.is_alive()
    event.set()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()
    await asyncio.sleep(0)
    assert owner.results.empty()  # whatever the first call came to, it was too late


def fails_first(times: int) -> FakeBackend:
    left = [times]

    def model(inputs: Tensors) -> BatchResult:
        if left[0]:
            left[0] -= 1
            raise BackendError("killed")
        return {"output": inputs["input"]}

    return FakeBackend(took_s=0.010, model=model)


@pytest.mark.field_fault("S-32")
async def test_ten_calls_in_a_row_that_are_killed_leave_nothing_hanging() -> None:
    backend = fails_first(0)
    driver = await warmed_up(backend)
    backend.model = fails_first(10).model
    backend.begun.clear()
    outcomes = [
        outcome
        for _ in range(8)
        for outcome in await outcomes_of(
            *(send(driver, first=place, within_ms=500) for place in range(9))
        )
    ]
    failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
    assert 0 < failed < len(outcomes)
    assert all(isinstance(outcome, (Answered, Failed)) for outcome in outcomes)
    assert all(isinstance(outcome, Answered) for outcome in outcomes[-9:])  # as before
    statistics = driver.statistics()
    assert statistics.unaccounted == statistics.waiting == statistics.running == 0
    assert statistics.batches_running == 0


@pytest.mark.field_fault("S-33", "S-34")
async def test_sixty_seconds_of_random_cancels_leave_the_throughput_as_it_was() -> None:
    backend, driver = await fake_warmed_up()
    backend.took_s = lambda rows: (1 + rows) / 100
    before = await answered_in(driver, seconds=5, cancelled=0.0)
    await answered_in(driver, seconds=60, cancelled=0.3)
    after = await answered_in(driver, seconds=5, cancelled=0.0)
    assert after == pytest.approx(before, rel=0.05)
    statistics = driver.statistics()
    assert statistics.unaccounted == 0
    assert 0.25 < statistics.cancelled / (60 * RATE) < 0.35
    await driver.aclose()
    statistics = driver.statistics()
    assert statistics.waiting == statistics.running == statistics.batches_running == 0


RATE = 30


async def answered_in(driver: BatchDriver, *, seconds: int, cancelled: float) -> int:
    """Send at a steady rate, let some callers leave at a random moment, and count answers."""
    dice = Random(1)
    before = driver.statistics().answered
    loop = asyncio.get_running_loop()
    for _ in range(seconds * RATE):
        ticket = send(driver, within_ms=1_000)
        if dice.random() < cancelled:
            loop.call_later(dice.uniform(0, 0.020), driver.cancel, ticket)
        await asyncio.sleep(1 / RATE)
    return driver.statistics().answered - before
