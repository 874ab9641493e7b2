"""The driver with an objective: what it measures before the first caller, and what callers get."""

import asyncio

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, answers, in_ms, numbers, outcomes_of, send
from tests.fakes.loop_clock import LoopClock
from tidegate.errors import BackendError, SettingError
from tidegate.inference.arrays import Tensors
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError
from tidegate.units import ms_to_ns
from tidegate_realtime.core.cap import Cap
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Failed, Rejected
from tidegate_realtime.runtime.ports import BatchResult
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime


def took_s(rows: int) -> float:
    return (1 + rows) / 1_000


async def warmed_up(
    backend: FakeBackend, *, slo_ms: float = 20, best_effort: bool = False
) -> BatchDriver:
    driver = BatchDriver(
        backend,
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=LoopClock(),
        name="risk@7",
        promise=Promise(slo_ns=ms_to_ns(slo_ms), best_effort=best_effort),
    )
    await driver.warm_up()
    backend.begun.clear()
    return driver


@pytest.mark.field_fault("S-09", "S-13")
async def test_warming_up_measures_the_sizes_and_derives_the_cap() -> None:
    driver = await warmed_up(FakeBackend(took_s=took_s))
    assert isinstance(driver.pace.cap, Cap)
    assert (driver.pace.cap.calm_rows, driver.pace.cap.limited_by) == (8, "slo")
    assert driver.pace.cap_rows == 16  # alone in time, and full under load
    assert driver.latency_model is not None
    samples = driver.latency_model.statistics().samples_by_size
    assert set(samples) == {1, 2, 4, 8, 16, 32}  # 32 rows take longer than the objective
    assert samples[1] >= 5


@pytest.mark.field_fault("S-13", "S-19")
async def test_an_objective_that_one_row_cannot_meet_stops_the_start_and_says_so() -> None:
    backend = FakeBackend(took_s=0.061)
    with pytest.raises(SettingError, match=r"risk@7: one row takes 61 ms at p99, the objective is"):
        await warmed_up(backend, slo_ms=50)


async def test_best_effort_starts_all_the_same_and_refuses_nobody() -> None:
    driver = await warmed_up(FakeBackend(took_s=0.061), slo_ms=50, best_effort=True)
    tickets = [send(driver, first=place, within_ms=10) for place in range(200)]
    outcomes = await outcomes_of(*tickets)
    assert all(isinstance(outcome, Answered) for outcome in outcomes)
    assert driver.statistics().late == 200


@pytest.mark.field_fault("S-21")
async def test_who_cannot_be_in_time_is_told_when_it_would_have_been_and_why() -> None:
    driver = await warmed_up(FakeBackend(took_s=took_s))
    tickets = [send(driver, first=place, within_ms=20) for place in range(40)]
    outcomes = await outcomes_of(*tickets)
    assert all(isinstance(outcome, (Answered, Rejected)) for outcome in outcomes)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Rejected)]
    (first, *_) = refused
    assert (first.code, first.slo_ms) == ("deadline_unreachable", 20)
    assert first.rows_ahead is not None
    assert first.predicted_ms is not None
    assert first.predicted_ms >= 20
    assert (
        f"risk@7 needs about {first.predicted_ms:.1f} ms ({first.rows_ahead} rows" in first.message
    )
    assert first.retry_after_ms >= 1
    answered = [place for place, each in enumerate(outcomes) if isinstance(each, Answered)]
    assert [answers(outcomes[place]) for place in answered] == [[place] for place in answered]


async def test_one_row_that_makes_the_model_raise_fails_alone() -> None:
    def model(inputs: Tensors) -> BatchResult:
        if 13.0 in inputs["input"]:
            raise BackendError("cannot digest 13")
        return {"output": inputs["input"]}

    driver = await warmed_up(FakeBackend(took_s=took_s, model=model), slo_ms=100)
    first = send(driver, first=500, within_ms=100)
    others = [send(driver, rows=2, first=number, within_ms=100) for number in (10, 12, 14)]
    outcomes = await outcomes_of(first, *others)
    assert answers(outcomes[1]) == [10, 11]
    assert answers(outcomes[3]) == [14, 15]
    assert isinstance(outcomes[2], Failed)
    assert outcomes[2].poison_row == 1
    assert driver.statistics().poison_rows == 1


async def test_a_row_that_memory_does_not_suffice_for_is_not_to_blame() -> None:
    def model(inputs: Tensors) -> BatchResult:
        if 13.0 in inputs["input"]:
            raise OutOfMemoryError("no memory is left")
        return {"output": inputs["input"]}

    driver = await warmed_up(FakeBackend(took_s=took_s, model=model), slo_ms=100)
    first = send(driver, first=500, within_ms=100)
    others = [send(driver, rows=2, first=number, within_ms=100) for number in (10, 12, 14)]
    outcomes = await outcomes_of(first, *others)
    assert answers(outcomes[1]) == [10, 11]
    assert answers(outcomes[3]) == [14, 15]  # a smaller batch fits
    assert isinstance(outcomes[2], Failed)
    assert (outcomes[2].error.code, outcomes[2].poison_row) == ("out_of_memory", None)
    assert answers(await send(driver, first=20, within_ms=100)) == [20]
    alone = await send(driver, first=13, within_ms=100)  # after a batch that ended well
    assert isinstance(alone, Failed)
    assert alone.poison_row is None
    assert driver.statistics().poison_rows == 0


async def test_a_batch_that_lost_its_device_is_not_run_again() -> None:
    lost = False

    def model(inputs: Tensors) -> BatchResult:
        if lost:
            raise DeviceLostError("an illegal memory access")
        return {"output": inputs["input"]}

    backend = FakeBackend(took_s=took_s, model=model)
    driver = await warmed_up(backend, slo_ms=100)
    first = send(driver, first=500, within_ms=100)
    others = [send(driver, first=number, within_ms=100) for number in (10, 12, 14)]
    await first
    lost, calls = True, len(backend.begun)
    outcomes = await outcomes_of(*others)
    assert [
        (each.error.code, each.poison_row) for each in outcomes if isinstance(each, Failed)
    ] == [("device_lost", None)] * 3
    assert len(backend.begun) == calls  # the one that ran when the device was lost
    alone = await send(driver, first=16, within_ms=100)
    assert isinstance(alone, Failed)
    assert (len(backend.begun), alone.poison_row) == (calls + 1, None)


async def test_a_batch_whose_outputs_have_the_wrong_rows_is_not_run_again() -> None:
    def model(inputs: Tensors) -> BatchResult:
        return {"output": inputs["input"][:1]} if len(inputs["input"]) == 3 else dict(inputs)

    backend = FakeBackend(took_s=took_s, model=model)
    driver = await warmed_up(backend, slo_ms=100)
    outcome = await send(driver, rows=3, within_ms=100)
    assert isinstance(outcome, Failed)
    assert backend.rows == [3]


async def test_a_probe_runs_with_the_inputs_of_whom_was_refused() -> None:
    backend = FakeBackend(took_s=took_s)
    driver = await warmed_up(backend)
    outcome = await send(driver, first=7, within_ms=1)  # one row takes 2 ms
    assert isinstance(outcome, Rejected)
    assert backend.begun[0].inputs["input"].tolist() == [[7]]
    await asyncio.sleep(0.010)
    statistics = driver.statistics()
    assert (statistics.probes, statistics.probes_in_time, statistics.unaccounted) == (1, 0, 0)
    await driver.aclose()


async def test_the_callers_own_time_leaves_less_for_the_model() -> None:
    driver = await warmed_up(FakeBackend(took_s=took_s))
    driver.on_reply(ms_to_ns(8))
    await send(driver, within_ms=20)
    assert driver.pace.overhead_ns == ms_to_ns(8)
    outcome = await driver.submit(numbers(1), rows=1, deadline_at_ns=in_ms(9))
    assert isinstance(outcome, Rejected)


async def test_bulk_waits_while_urgent_rows_are_there() -> None:
    backend = FakeBackend(took_s=took_s)
    driver = await warmed_up(backend, slo_ms=200)
    running = send(driver, within_ms=200)
    bulk = [
        driver.submit(numbers(1, 100 + n), rows=1, deadline_at_ns=in_ms(190), priority=3)
        for n in range(32)
    ]
    urgent = [
        driver.submit(numbers(1, n), rows=1, deadline_at_ns=in_ms(190), priority=1)
        for n in range(32)
    ]
    await outcomes_of(running, *bulk, *urgent)
    second = backend.begun[1].inputs["input"].ravel().tolist()
    assert sum(number < 100 for number in second) >= 0.9 * len(second)
