"""Who rides with whom, and when: exact virtual times."""

import asyncio
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import answers, build_driver, in_ms, numbers, outcomes_of, send
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate.units import ms_to_ns
from tidegate_realtime.runtime.outcomes import Answered, Outcome

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.field_fault("S-15", "S-18")
async def test_a_lone_request_with_an_idle_executor_waits_for_nobody() -> None:
    driver = build_driver(FakeBackend(took_s=0.010))
    outcome = await send(driver)
    assert isinstance(outcome, Answered)
    assert (outcome.queued_ns, outcome.executed_ns) == (0, ms_to_ns(10))
    assert now_s() == 0.010


@pytest.mark.field_fault("S-02")
async def test_the_cap_counts_rows_and_not_requests() -> None:
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend)
    await outcomes_of(*(send(driver, rows=32) for _ in range(5)))
    assert backend.rows == [32, 32, 32, 32, 32]
    assert now_s() == 0.050


@pytest.mark.field_fault("S-07")
async def test_four_that_queue_behind_a_running_batch_make_one_batch_of_four() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    outcomes = await outcomes_of(*(send(driver, first=place) for place in range(5)))
    assert backend.rows == [1, 4]
    assert [answers(outcome) for outcome in outcomes] == [[0], [1], [2], [3], [4]]
    assert now_s() == 0.200


@pytest.mark.field_fault("S-07", "S-08")
async def test_late_binding_answers_nearly_all_of_500_rows_a_second_at_100_ms_a_call() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend, cap_rows=64)
    for _ in range(1_500):
        send(driver)
        await asyncio.sleep(0.002)
    assert now_s() == pytest.approx(3.0)
    assert driver.statistics().answered >= 1_400
    assert driver.statistics().batches_by_reason["full"] == 0
    await driver.drain()


@pytest.mark.field_fault("S-08")
async def test_above_capacity_batches_are_full_and_the_executor_never_idles() -> None:
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend, cap_rows=8)
    for _ in range(1_000):
        send(driver, within_ms=50)
        await asyncio.sleep(0.001)
    began = [batch.began_at_s for batch in backend.begun]
    gaps = [after - before for before, after in pairwise(began)]
    assert max(gaps) == pytest.approx(0.010)
    assert set(backend.rows[1:]) == {8}
    assert driver.statistics().batches_by_reason == {"full": len(began) - 1, "free": 1}
    await driver.drain()


async def test_each_executor_runs_a_batch_of_its_own() -> None:
    backend = FakeBackend(took_s=0.010, executors=2)
    driver = build_driver(backend)
    await outcomes_of(*(send(driver) for _ in range(4)))
    assert backend.rows == [1, 1, 2]
    assert now_s() == 0.020


async def test_the_earliest_deadline_goes_first_and_equal_ones_in_order_of_arrival() -> None:
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend, cap_rows=1)
    tickets = [
        send(driver, first=number, within_ms=within_ms)
        for number, within_ms in enumerate((900, 300, 100, 300))
    ]
    await outcomes_of(*tickets)
    ran = [float(batch.inputs["input"][0, 0]) for batch in backend.begun]
    assert ran == [0, 2, 1, 3]


async def test_a_request_above_the_cap_runs_in_pieces_and_is_put_together() -> None:
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend)
    whole, small = await outcomes_of(send(driver, rows=70), send(driver, rows=2, first=500))
    assert answers(whole) == list(range(70))
    assert answers(small) == [500, 501]
    assert backend.rows == [32, 32, 8]


async def test_pieces_that_end_out_of_order_are_put_together_in_order() -> None:
    backend = FakeBackend(took_s=lambda rows: rows / 1_000, executors=2)
    driver = build_driver(backend)
    outcome = await send(driver, rows=40)  # of which the last 8 are there first
    assert answers(outcome) == list(range(40))
    assert backend.rows == [32, 8]
    assert now_s() == 0.032


async def test_a_request_that_fits_the_cap_is_never_split() -> None:
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend)
    await outcomes_of(*(send(driver, rows=rows) for rows in (1, 20, 20, 12)))
    assert backend.rows == [1, 20, 32]


async def test_only_rows_of_one_shape_share_a_batch_and_the_others_keep_their_place() -> None:
    signature = Signature(
        inputs=(TensorSpec(name="input", datatype="FP32", shape=(-1, -1)),),
        outputs=(TensorSpec(name="output", datatype="FP32", shape=(-1, -1)),),
    )
    backend = FakeBackend(took_s=0.010)
    driver = build_driver(backend, signature=signature)
    arrays = [np.full((1, length), length, np.float32) for length in (9, 2, 3, 2, 3, 2)]
    tickets = [
        driver.submit({"input": array}, rows=1, deadline_at_ns=in_ms(1_000)) for array in arrays
    ]
    outcomes = await outcomes_of(*tickets)
    assert [batch.inputs["input"].shape for batch in backend.begun] == [(1, 9), (3, 2), (2, 3)]
    for outcome, array in zip(outcomes, arrays, strict=True):
        assert isinstance(outcome, Answered)
        assert outcome.outputs["output"].tolist() == array.tolist()


async def test_a_batch_of_one_request_is_not_copied() -> None:
    backend = FakeBackend()
    driver = build_driver(backend)
    inputs = numbers(3)
    await driver.submit(inputs, rows=3, deadline_at_ns=in_ms(10))
    assert backend.begun[0].inputs is inputs


async def test_waiting_counts_from_the_arrival_that_the_caller_states() -> None:
    driver = build_driver(FakeBackend(took_s=0.010))
    await asyncio.sleep(0.005)
    outcome = await driver.submit(
        numbers(1), rows=1, deadline_at_ns=in_ms(100), arrived_at_ns=in_ms(-5)
    )
    assert isinstance(outcome, Answered)
    assert (outcome.queued_ns, outcome.executed_ns) == (ms_to_ns(5), ms_to_ns(10))


async def test_the_cap_is_lowered_to_what_the_backend_takes() -> None:
    backend = FakeBackend(took_s=0.010, fixed_rows=2)
    driver = build_driver(backend)
    assert driver.limits.cap_rows == 2
    outcome = await send(driver, rows=5)
    assert answers(outcome) == [0, 1, 2, 3, 4]
    assert backend.rows == [2, 2, 1]


async def test_a_caller_that_miscounts_its_rows_is_told_so_before_anybody_is_harmed() -> None:
    driver = build_driver()
    with pytest.raises(ValueError, match=r"'input' has shape \[3, 1\], not 2 rows"):
        driver.submit(numbers(3), rows=2, deadline_at_ns=in_ms(10))
    assert driver.statistics().arrived == 0


@pytest.mark.field_fault("S-05")
@pytest.mark.parametrize("cap_rows", [256, 16])
async def test_a_hundred_rows_alone_take_as_long_as_the_bare_calls(cap_rows: int) -> None:
    backend = FakeBackend(took_s=lambda rows: 0.001 * rows)
    outcome = await send(build_driver(backend, cap_rows=cap_rows), rows=100)
    assert answers(outcome) == [float(row) for row in range(100)]
    assert now_s() == pytest.approx(0.100)  # in one call or in several: nothing is added
    assert len(backend.rows) == (1 if cap_rows > 100 else 7)


@pytest.mark.field_fault("S-14")
@pytest.mark.parametrize("executors", [1, 2])
async def test_waiting_counts_from_the_arrival_whatever_runs_then(executors: int) -> None:
    random, budget_ms = Random(14), 60
    driver = build_driver(FakeBackend(took_s=0.020, executors=executors), cap_rows=4)
    ended: list[tuple[float, Outcome]] = []

    async def ask(decoding_s: float) -> None:
        came_s, arrived_at_ns = now_s(), in_ms(0)
        deadline_at_ns = in_ms(budget_ms)
        await asyncio.sleep(decoding_s)  # it is submitted later than it came
        outcome = await driver.submit(
            numbers(1), rows=1, deadline_at_ns=deadline_at_ns, arrived_at_ns=arrived_at_ns
        )
        ended.append((now_s() - came_s, outcome))

    async with asyncio.TaskGroup() as callers:
        for _ in range(500):
            callers.create_task(ask(random.uniform(0, 0.010)))
            await asyncio.sleep(random.expovariate(220 * executors))  # more than it can answer
    answered = [(took_s, each) for took_s, each in ended if isinstance(each, Answered)]
    assert 200 < len(answered) < 500
    for took_s, outcome in answered:
        assert took_s == pytest.approx((outcome.queued_ns + outcome.executed_ns) / 1e9)
    assert max(took_s for took_s, _ in ended) == pytest.approx(budget_ms / 1e3)
