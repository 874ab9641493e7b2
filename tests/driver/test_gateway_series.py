"""What ``/metrics`` says of a queue whose state is known, on virtual time.

One row of the model takes 10 ms, and each further one 1 ms.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import numpy as np
import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import in_ms
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.inference.model import Model
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.outcomes import Answered
from tidegate_realtime.runtime.sharing import SharedExecutors

pytestmark = pytest.mark.looptime


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@asynccontextmanager
async def serving(
    model: Model,
    *,
    fixed_rows: int | None = None,
    slo_ms: float = 1_000,
    fake: FakeBackend | None = None,
    limits: BatchLimits | None = None,
) -> AsyncIterator[tuple[Edge, GatewayCollector, Observer]]:
    fake = fake or FakeBackend(
        took_s=lambda rows: 0.009 + 0.001 * (fixed_rows or rows),
        fixed_rows=fixed_rows,
    )
    clock = LoopClock()
    backend = MeasuredBackend(fake, clock)
    edge = edges.serve(
        [model],
        clock=clock,
        backend=lambda _: backend,
        promised=edges.promise(slo_ms=slo_ms),
        limits=limits,
    )
    driver = edge.catalogue.versions[0].driver
    try:
        await driver.warm_up()
        backend.forget()
        backend.model_of = lambda _: driver.latency_model
        collector = GatewayCollector(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock)
        observer = Observer(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock)
        yield edge, collector, observer
    finally:
        await driver.aclose()


def ask(edge: Edge, rows: int, *, priority: int = 2, **parameters: object) -> asyncio.Task[object]:
    parameters |= {"priority": priority}
    body = orjson.dumps({"instances": [[1, 2]] * rows, "parameters": parameters})
    exchange = FakeExchange(
        "POST", "/v1/models/echo:predict", body, began_at_ns=LoopClock().now_ns()
    )
    return asyncio.get_running_loop().create_task(edge.endpoint.answer(exchange))


def series(collector: GatewayCollector) -> dict[tuple[str, str], float]:
    """Sum the samples by name and by the one label that is neither model, version nor backend."""
    found: dict[tuple[str, str], float] = {}
    for family in collector.collect():
        for sample in family.samples:
            labels = {**sample.labels}
            for name in ("model", "version", "backend"):
                labels.pop(name, None)
            key = sample.name, "".join(labels.values())
            found[key] = found.get(key, 0) + sample.value
    return found


@pytest.mark.field_fault("S-54")
async def test_the_gauges_of_a_queue_are_its_state(echo: Model) -> None:
    async with serving(echo) as (edge, collector, _):
        running = ask(edge, 1)
        await asyncio.sleep(0.002)
        waiting = [ask(edge, 2, priority=1), ask(edge, 3, priority=2)]
        await asyncio.sleep(0.003)
        waiting.append(ask(edge, 4, priority=3))
        await asyncio.sleep(0.004)
        found = series(collector)
        classes = [found["tidegate_queue_rows", name] for name in ("1", "2", "3", "late")]
        assert classes == [2, 3, 4, 0]
        ages_s = [
            found["tidegate_queue_oldest_age_seconds", name] for name in ("1", "2", "3", "late")
        ]
        assert ages_s == pytest.approx([0.007, 0.007, 0.004, 0])
        assert found["tidegate_in_flight_requests", ""] == 4
        assert found["tidegate_predicted_drain_seconds", ""] == pytest.approx(0.009 + 0.009)
        await asyncio.gather(running, *waiting)
        found = series(collector)
        assert sum(value for key, value in found.items() if key[0] == "tidegate_queue_rows") == 0
        assert found["tidegate_predicted_drain_seconds", ""] == 0


@pytest.mark.field_fault("S-57")
async def test_each_call_counts_its_rows_its_reason_its_time_and_its_forecast(echo: Model) -> None:
    async with serving(echo) as (edge, collector, _):
        await asyncio.gather(*(ask(edge, 1) for _ in range(5)))
        found = series(collector)
        assert found["tidegate_batches_total", "free"] == 2  # the first one alone, then the others
        assert found["tidegate_batch_rows_sum", ""] == 5
        assert found["tidegate_executor_busy_seconds_total", ""] == pytest.approx(0.010 + 0.013)
        assert found["tidegate_execution_seconds_sum", ""] == pytest.approx(0.010 + 0.013)
        assert found["tidegate_batch_oldest_wait_seconds_count", ""] == 2
        assert found["tidegate_batch_oldest_wait_seconds_sum", ""] == pytest.approx(0.010)
        assert found["tidegate_batch_oldest_wait_seconds_bucket", "0.0001"] == 1  # one went at once
        assert found["tidegate_call_forecast_ratio_count", ""] == 2
        assert found["tidegate_call_forecast_ratio_bucket", "0.7"] == 0
        assert found["tidegate_call_forecast_ratio_bucket", "1.1"] == 2
        assert found["tidegate_padding_rows_total", ""] == 0
        cap_rows = found["tidegate_cap_rows", "effective"]
        capacity = found["tidegate_capacity_rows_per_second", ""]
        assert capacity == pytest.approx(cap_rows / (0.009 + 0.001 * cap_rows))


@pytest.mark.field_fault("S-11")
async def test_padding_is_counted_by_itself_and_nowhere_else(tmp_path: Path) -> None:
    model = edges.load(onnx_models.echo_fixed_rows(tmp_path / "fixed.onnx", rows=8))
    async with serving(model, fixed_rows=8) as (edge, collector, _):
        await asyncio.gather(*(ask(edge, 3) for _ in range(2)))
        found = series(collector)
        assert found["tidegate_padding_rows_total", ""] == 5 + 5
        assert found["tidegate_batch_rows_sum", ""] == 6


@pytest.mark.field_fault("S-10")
async def test_what_is_observed_is_what_happened_in_the_window(echo: Model) -> None:
    async with serving(echo) as (edge, _, observer):
        stopping = asyncio.Event()

        async def closed_loop() -> None:
            while not stopping.is_set():
                await ask(edge, 2)

        async with asyncio.TaskGroup() as callers:
            for _ in range(3):
                callers.create_task(closed_loop())
            observed = await observer.watch("echo", "1", window_s=2)
            stopping.set()
        assert observed.window_s == pytest.approx(2)
        assert observed.answered > 200
        assert observed.rows == pytest.approx(2 * observed.answered, rel=0.02)
        assert observed.in_progress == pytest.approx(3, rel=0.05)
        assert observed.most_in_progress == 3
        assert observed.has_steady_callers
        assert observed.places in {6, 7}
        assert observed.batches == sum(observed.reasons.values())
        assert observed.call_ms == pytest.approx(
            2_000 * observed.busy_ratio / observed.batches, rel=0.02
        )
        assert observed.refused == {}
        assert observed.slower_ratio == pytest.approx(1, abs=0.2)


@pytest.mark.field_fault("S-10")
async def test_a_load_of_many_callers_is_told_from_few_that_wait_for_their_answers(
    echo: Model,
) -> None:
    async with serving(echo) as (edge, _, observer):
        stopping, dice = asyncio.Event(), Random(7)

        async def come_by_chance() -> None:
            while not stopping.is_set():
                ask(edge, 1)
                await asyncio.sleep(dice.expovariate(600))

        async with asyncio.TaskGroup() as callers:
            callers.create_task(come_by_chance())
            observed = await observer.watch("echo", "1", window_s=2)
            stopping.set()
        await edge.catalogue.versions[0].driver.drain()
        assert observed.arriving_per_second == pytest.approx(600, rel=0.1)
        assert 5 < observed.in_progress < observed.most_in_progress
        assert not observed.has_steady_callers


async def test_who_shares_executors_is_observed_with_the_time_that_others_took(
    tmp_path: Path,
) -> None:
    clock, file = LoopClock(), onnx_models.echo(tmp_path / "echo.onnx")
    models = [edges.load(file), edges.load(file, name="other")]
    edge = edges.serve(
        models,
        clock=clock,
        backend=lambda _: MeasuredBackend(FakeBackend(took_s=0.1), clock),
    )
    shared = SharedExecutors(1)
    for served in edge.catalogue.versions:
        served.driver.share(shared)
    observer = Observer(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock)
    other = edge.catalogue.find("other", None)
    inputs = {"input": np.zeros((1, 2), np.float32)}
    call = other.driver.submit(inputs, rows=1, deadline_at_ns=in_ms(10_000))
    observed = await observer.watch("echo", None, window_s=0.4)
    assert observed.sharing == ["other@1"]
    assert observed.others_busy_ratio == pytest.approx(0.25)
    assert observed.busy_ratio == 0
    assert isinstance(await call, Answered)
    for served in edge.catalogue.versions:
        await served.driver.aclose()


@pytest.mark.field_fault("S-60")
async def test_what_is_offered_exceeds_the_capacity_although_all_beyond_it_is_refused(
    echo: Model,
) -> None:
    """With batches of one row, on which a signal that counts what runs would stay at 1."""
    limits = BatchLimits(memory_rows=1)
    async with serving(echo, slo_ms=100, limits=limits) as (edge, collector, _):
        ratios = []
        for rate in (80, 200):
            for _ in range(rate * 10):
                ask(edge, 1)
                await asyncio.sleep(1 / rate)
            found = series(collector)
            assert found["tidegate_cap_rows", "effective"] == 1
            capacity = found["tidegate_capacity_rows_per_second", ""]
            assert capacity == pytest.approx(100)  # a row takes 10 ms
            ratios.append(found["tidegate_arrival_rows_per_second", ""] / capacity)
        assert ratios == pytest.approx([0.8, 2.0], rel=0.05)
        await edge.catalogue.versions[0].driver.drain()
