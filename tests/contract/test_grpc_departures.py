"""Callers who cancel, vanish or run out of time: nothing runs for them, each is counted once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import grpc
import numpy as np
import pytest

from tests.fakes.backends import FakeBackend
from tests.fixtures import edges, onnx_models
from tests.fixtures.grpc_calls import begin, connected, infer_request, listening, output_arrays
from tidegate.clock.system import SystemClock
from tidegate.inference.model import Model
from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate_realtime.api.edge import Edge

CALLS = 1_000
SEED = 20261201
CROSSED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
"""Of a call that meets the server's goodbye: the library says either."""


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@asynccontextmanager
async def serving(model: Model, backend: FakeBackend) -> AsyncIterator[Edge]:
    """Serve one model without anybody else, and check at the end that every request ended once."""
    edge = edges.serve([model], clock=SystemClock(), backend=lambda _: backend, slo_ms=60_000)
    driver = edge.catalogue.versions[0].driver
    try:
        yield edge
    finally:
        await driver.aclose()
        statistics = driver.statistics()
        assert statistics.unaccounted == 0
        assert edge.metrics.in_flight.total() == 0
        assert edge.sweeper.bodies.held_bytes == 0
        ended = sum(edge.metrics.ended.values())
        assert edge.metrics.arrivals.total() == ended == statistics.arrived


def one_row(value: float) -> v2.ModelInferRequest:
    return infer_request("echo", {"input": ("FP32", np.array([[value, 0]], np.float32))})


def endings(edge: Edge) -> dict[str, int]:
    return {str(key.outcome): count for key, count in edge.metrics.ended.items()}


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go on until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - counters of the product have no event
            await asyncio.sleep(0)


@pytest.mark.field_fault("S-26", "S-36")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_a_call_that_waits_when_its_caller_leaves_never_runs(echo: Model, how: str) -> None:
    backend = FakeBackend(model=echo.run, took_s=3_600)
    async with serving(echo, backend) as edge, listening(edge) as server:
        target = f"127.0.0.1:{server.port}"
        async with grpc.aio.insecure_channel(target) as staying:
            running = begin(staying, "ModelInfer", one_row(1))
            await until(lambda: backend.rows == [1])
            leaving = grpc.aio.insecure_channel(target)
            waiting = begin(leaving, "ModelInfer", one_row(2))
            await until(lambda: edge.metrics.in_flight["echo"] == 2)
            if how == "cancel":
                waiting.cancel()
            else:
                await leaving.close()
            await until(lambda: edge.metrics.in_flight["echo"] == 1)
            (batch,) = backend.begun
            batch.done(echo.run(batch.inputs))
            assert output_arrays(await running)["output"].tolist() == [[1, 0]]
            await leaving.close()
        assert endings(edge) == {"answered": 1, "cancelled": 1}
        assert backend.rows == [1]


@pytest.mark.field_fault("S-26", "S-36")
async def test_the_batch_mates_of_a_caller_who_leaves_are_answered(echo: Model) -> None:
    backend = FakeBackend(model=echo.run, took_s=3_600)
    async with serving(echo, backend) as edge, connected(edge) as channel:
        first = begin(channel, "ModelInfer", one_row(0))
        await until(lambda: backend.rows == [1])
        mates = [begin(channel, "ModelInfer", one_row(value)) for value in (1, 2, 3)]
        await until(lambda: edge.metrics.in_flight["echo"] == 4)
        backend.begun[0].done(echo.run(backend.begun[0].inputs))
        await until(lambda: backend.rows == [1, 3])
        mates[1].cancel()
        await until(lambda: endings(edge).get("cancelled") == 1)
        backend.begun[1].done(echo.run(backend.begun[1].inputs))
        assert output_arrays(await mates[0])["output"].tolist() == [[1, 0]]
        assert output_arrays(await mates[2])["output"].tolist() == [[3, 0]]
        await first


async def test_a_thousand_callers_who_leave_at_any_moment_are_counted_once_each(
    echo: Model,
) -> None:
    random = Random(SEED)
    backend = FakeBackend(model=echo.run, took_s=0.02)
    loop, places = asyncio.get_running_loop(), asyncio.Semaphore(50)

    async def caller(channel: grpc.aio.Channel, value: int) -> None:
        async with places:
            call = begin(channel, "ModelInfer", one_row(value))
            leaving = loop.call_later(random.uniform(0, 0.12), call.cancel)
            try:
                reply = await call
            except asyncio.CancelledError:
                return
            leaving.cancel()
            assert output_arrays(reply)["output"].tolist() == [[value, 0]]

    async with serving(echo, backend) as edge, connected(edge) as channel:
        async with asyncio.TaskGroup() as callers:
            for value in range(CALLS):
                callers.create_task(caller(channel, value))
        counted = endings(edge)
        assert counted.keys() == {"answered", "cancelled"}
        assert min(counted.values()) > CALLS // 20
        last = await begin(channel, "ModelInfer", one_row(-1))
        assert output_arrays(last)["output"].tolist() == [[-1, 0]]


@pytest.mark.field_fault("S-27")
async def test_a_call_whose_deadline_passes_is_over_on_both_sides(echo: Model) -> None:
    backend = FakeBackend(model=echo.run, took_s=3_600)
    async with serving(echo, backend) as edge, connected(edge) as channel:
        calls = [begin(channel, "ModelInfer", one_row(0), timeout=0.05) for _ in range(3)]
        for call in calls:
            assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: edge.metrics.in_flight["echo"] == 0)
        assert endings(edge).keys() <= {"expired", "cancelled"}
        assert backend.rows == [1]


async def test_a_drain_answers_what_was_begun_and_takes_nothing_new(echo: Model) -> None:
    backend = FakeBackend(model=echo.run, took_s=3_600)
    async with serving(echo, backend) as edge:
        async with listening(edge) as server:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
            running = begin(channel, "ModelInfer", one_row(1))
            await until(lambda: backend.rows == [1])
            server.stop()
            late = begin(channel, "ModelInfer", one_row(2))
            assert await late.code() in CROSSED
            backend.begun[0].done(echo.run(backend.begun[0].inputs))
            assert output_arrays(await running)["output"].tolist() == [[1, 0]]
            await channel.close()
        assert endings(edge) == {"answered": 1}


async def test_a_drain_does_not_wait_for_ever(echo: Model) -> None:
    backend = FakeBackend(model=echo.run, took_s=3_600)
    async with serving(echo, backend) as edge:
        async with listening(edge, drain_limit_s=0.1) as server:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
            running = begin(channel, "ModelInfer", one_row(1))
            await until(lambda: backend.rows == [1])
        assert await running.code() is not grpc.StatusCode.OK
        await until(lambda: edge.metrics.in_flight.total() == 0)
        assert endings(edge) == {"cancelled": 1}
        await channel.close()
