"""The driver, a real backend and a real loop together: each caller gets its own rows."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest
import uvloop

from tests.fakes.backends import FakeBackend
from tests.fixtures import onnx_models
from tidegate.clock.system import SystemClock
from tidegate.inference.arrays import Tensors
from tidegate.inference.runner import ModelRunner, RunControl
from tidegate.observability import configure_logging
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.backends.onnx import OnnxBackend, RunnableModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Expired

CALLERS, REQUESTS = 64, 16


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    make_loop: Callable[[], asyncio.AbstractEventLoop] = request.param
    return asyncio.Runner(loop_factory=make_loop)


@pytest.fixture(autouse=True)
def logging_as_a_service_starts_it() -> None:
    """Before there is a loop: the first line imports a lot, which blocks."""
    configure_logging(json=True)


@pytest.fixture
def model(tmp_path: Path) -> ModelRunner:
    return ModelRunner.load(onnx_models.echo(tmp_path / "echo.onnx", width=2), threads=1)


@asynccontextmanager
async def driving(model: RunnableModel) -> AsyncIterator[BatchDriver]:
    """Close whatever happens, or the backend's thread would keep the test run alive."""
    driver = BatchDriver(
        OnnxBackend(model),
        signature=model.signature,
        limits=BatchLimits(),
        clock=SystemClock(),
        name="echo@1",
    )
    try:
        yield driver
    finally:
        await driver.aclose()


async def call(driver: BatchDriver, caller: int) -> None:
    """Send requests of 1 to 40 rows, one after the other; each row says whose it is."""
    random = Random(caller)
    for number in range(REQUESTS):
        rows = random.randint(1, 40)
        values = np.full((rows, 2), caller, np.float32)
        values[:, 1] = number * 100 + np.arange(rows)
        deadline_at_ns = Nanoseconds(SystemClock().now_ns() + 60 * NS_PER_SECOND)
        ticket = driver.submit({"input": values}, rows=rows, deadline_at_ns=deadline_at_ns)
        outcome = await ticket
        assert isinstance(outcome, Answered)
        assert np.array_equal(outcome.outputs["output"], values)


@pytest.mark.field_fault("S-03")
def test_of_a_thousand_concurrent_requests_each_gets_its_own_rows(
    runner: asyncio.Runner, model: ModelRunner
) -> None:
    async def main() -> None:
        async with driving(model) as driver:
            await driver.warm_up()
            async with asyncio.TaskGroup() as callers:
                for caller in range(CALLERS):
                    callers.create_task(call(driver, caller))
        statistics = driver.statistics()
        assert statistics.answered == CALLERS * REQUESTS
        assert statistics.unaccounted == 0
        assert max(statistics.batches_by_rows) <= 32
        assert sum(statistics.batches_by_rows.values()) < CALLERS * REQUESTS  # they did share

    with runner:
        runner.run(main())


class Stalled:
    """A model whose calls last until a test lets them go."""

    def __init__(self, model: ModelRunner) -> None:
        self.signature = model.signature
        self.run_on = threading.Event()

    def run(self, inputs: Tensors, control: RunControl | None = None) -> Tensors:
        self.run_on.wait()
        return {"output": inputs["input"]}

    def reopened(self) -> "Stalled":
        return self


@pytest.mark.field_fault("S-30", "S-31")
def test_deadlines_pass_on_a_real_loop_while_the_model_stalls(
    runner: asyncio.Runner, model: ModelRunner
) -> None:
    async def main() -> None:
        stalled = Stalled(model)
        async with driving(stalled) as driver:
            now_ns = SystemClock().now_ns()
            values = np.zeros((1, 2), np.float32)
            budgets_ns = range(200_000, 3_000_000, 200_000)  # finer than uvloop's timers
            tickets = [
                driver.submit({"input": values}, rows=1, deadline_at_ns=Nanoseconds(now_ns + ns))
                for ns in budgets_ns
            ]
            outcomes = [await ticket for ticket in tickets]
            stalled.run_on.set()
        for outcome in outcomes:
            assert isinstance(outcome, Expired)
            assert outcome.queued_ns + outcome.executed_ns >= outcome.limit_ns
        assert driver.statistics().expired == len(tickets)

    with runner:
        runner.run(main())


def test_a_result_that_comes_after_the_loop_was_closed_harms_nobody(
    runner: asyncio.Runner, model: ModelRunner
) -> None:
    backend = FakeBackend(took_s=60)

    async def main() -> None:
        driver = BatchDriver(
            backend,
            signature=model.signature,
            limits=BatchLimits(),
            clock=SystemClock(),
            name="echo@1",
        )
        deadline_at_ns = Nanoseconds(SystemClock().now_ns() + 60 * NS_PER_SECOND)
        values = np.zeros((1, 2), np.float32)
        driver.submit({"input": values}, rows=1, deadline_at_ns=deadline_at_ns)

    with runner:
        runner.run(main())
    (batch,) = backend.begun
    batch.done({"output": batch.inputs["input"]})
