"""Backends that fail, queues that are full, and the end of it all."""

import asyncio
import json

import numpy as np
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import answers, build_driver, in_ms, outcomes_of, send
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate_realtime.runtime.outcomes import Answered, Failed, Rejected
from tidegate_realtime.runtime.ports import BatchResult

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


def refuses_13(inputs: Tensors) -> BatchResult:
    if 13 in inputs["input"]:
        raise BackendError("13 is not for me")
    return {"output": inputs["input"]}


async def test_a_failed_batch_fails_its_members_and_nobody_else() -> None:
    driver = build_driver(FakeBackend(took_s=0.010, model=refuses_13))
    (
        fine,
        *together,
    ) = (send(driver, first=number) for number in (1, 13, 14))
    outcomes = await outcomes_of(
        fine,
        *together,
    )
    assert answers(outcomes[0]) == [1]
    for outcome in outcomes[1:]:
        assert isinstance(outcome, Failed)
        assert str(outcome.error) == "13 is not for me"
    assert answers(await send(driver, first=2)) == [2]
    assert driver.statistics().failed == 2


async def test_one_failed_piece_fails_its_request_and_what_waits_of_it_never_runs() -> None:
    backend = FakeBackend(took_s=0.010, model=refuses_13)
    driver = build_driver(backend, cap_rows=8)
    large, small = await outcomes_of(send(driver, rows=40), send(driver, first=50))
    assert isinstance(large, Failed)
    assert answers(small) == [50]
    assert backend.rows == [8, 8, 1]


@pytest.mark.field_fault("S-03")
@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (0, 1), ()])
async def test_a_wrong_number_of_output_rows_fails_everybody_in_the_batch(
    shape: tuple[int, ...],
) -> None:
    backend = FakeBackend(took_s=0.010, model=lambda _: {"output": np.zeros(shape, np.float32)})
    driver = build_driver(backend)
    for outcome in (await outcomes_of(send(driver, rows=2), send(driver), send(driver)))[1:]:
        assert isinstance(outcome, Failed)
        assert str(outcome.error) == f"output 'output' has shape {list(shape)}, not 2 rows"


async def test_rows_that_do_not_stack_fail_their_batch_and_the_next_one_runs() -> None:
    driver = build_driver(FakeBackend(took_s=0.010))
    first = send(driver)
    wide = np.zeros((1, 5), np.float32)  # which the signature does not allow
    unstackable = driver.submit({"input": wide}, rows=1, deadline_at_ns=in_ms(1_000))
    outcomes = await outcomes_of(first, send(driver), unstackable)
    assert isinstance(outcomes[0], Answered)
    assert all(isinstance(outcome, Failed) for outcome in outcomes[1:])
    assert answers(await send(driver, first=4)) == [4]


@pytest.mark.field_fault("S-38", "S-21")
async def test_a_full_queue_refuses_at_once_and_says_how_full_it_is() -> None:
    driver = build_driver(FakeBackend(took_s=0.100), cap_rows=4, queue_limit_rows=6)
    tickets = [send(driver, rows=rows) for rows in (4, 4, 2)]
    outcome = await send(driver, rows=1)
    assert now_s() == 0
    assert outcome == Rejected(
        code="queue_full",
        message="6 rows are waiting, of at most 6, which leaves no room for 1 more; "
        "try again later.",
        retry_after_ms=1_000,
    )
    await outcomes_of(*tickets)
    assert answers(await send(driver, first=1)) == [1]


async def test_a_request_larger_than_the_whole_queue_is_told_to_be_smaller() -> None:
    outcome = await send(build_driver(cap_rows=4, queue_limit_rows=6), rows=7)
    assert isinstance(outcome, Rejected)
    assert outcome.code == "queue_full"
    assert outcome.message == (
        "The request has 7 rows, and at most 6 may wait here; split it, or submit an offline job."
    )


async def test_draining_finishes_what_was_admitted_and_refuses_the_rest() -> None:
    backend = FakeBackend(took_s=0.100)
    driver = build_driver(backend)
    admitted = [send(driver, first=number) for number in range(3)]
    async with asyncio.TaskGroup() as tasks:
        draining = tasks.create_task(driver.drain())
        await asyncio.sleep(0.050)
        assert not draining.done()
        refused = await send(driver)
        assert now_s() == 0.050
    assert now_s() == 0.200
    assert isinstance(refused, Rejected)
    assert refused.code == "draining"
    assert [answers(outcome) for outcome in await outcomes_of(*admitted)] == [[0], [1], [2]]
    await driver.drain()  # again: at once
    assert now_s() == 0.200


async def test_an_idle_driver_drains_at_once() -> None:
    await build_driver().drain()
    assert now_s() == 0


async def test_closing_waits_for_a_call_that_nobody_waits_for_and_checks_the_totals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend = FakeBackend(took_s=3.0)
    driver = build_driver(backend)
    send(driver, within_ms=1_000)
    left, *_ = [send(driver, within_ms=2_000) for _ in range(2)]
    driver.cancel(left)
    await driver.aclose()
    await driver.aclose()
    assert backend.closed
    assert all(batch.finished for batch in backend.begun)
    assert isinstance(await send(driver), Rejected)
    lines = [line for line in capsys.readouterr().err.splitlines() if "model_closed" in line]
    assert len(lines) == 1
    logged = json.loads(lines[0])
    assert logged["model"] == "echo@1"
    counts = [logged[name] for name in ("arrived", "answered", "expired", "cancelled", "failed")]
    assert counts == [3, 0, 2, 1, 0]


async def test_totals_that_do_not_add_up_are_an_error_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = build_driver()
    await send(driver)
    driver._tickets.settled += 1  # as if some bug had ended a request twice
    await driver.aclose()
    logged = json.loads(capsys.readouterr().err)
    assert (logged["event"], logged["level"]) == ("totals_differ", "error")
    assert (logged["arrived"], logged["settled"]) == (1, 2)


@pytest.mark.field_fault("S-09")
async def test_warming_up_runs_zeros_as_one_row_and_as_a_full_batch() -> None:
    signature = Signature(
        inputs=(
            TensorSpec(name="image", datatype="UINT8", shape=(-1, 3, -1)),
            TensorSpec(name="text", datatype="BYTES", shape=(-1, 1)),
        ),
        outputs=(TensorSpec(name="output", datatype="FP32", shape=(-1, 1)),),
    )
    backend = FakeBackend()
    await build_driver(backend, signature=signature).warm_up()
    assert backend.rows == [1, 32]
    full = backend.begun[1].inputs
    assert full["image"].shape == (32, 3, 1)
    assert full["image"].dtype == np.uint8
    assert full["text"].tolist() == [[""]] * 32


async def test_warming_up_says_which_size_the_model_does_not_run() -> None:
    def no_zeros(inputs: Tensors) -> BatchResult:
        raise BackendError("division by zero")

    driver = build_driver(FakeBackend(model=no_zeros))
    with pytest.raises(
        BackendError, match=r"^the warm-up batch of zeros, rows=1, failed: division by zero$"
    ):
        await driver.warm_up()
