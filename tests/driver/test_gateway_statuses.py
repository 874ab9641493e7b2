"""Each caller gets the status of its own request, whatever becomes of those beside it."""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.runtime.ports import BatchResult

pytestmark = pytest.mark.looptime

POISON = 13.0


def fail_on_poison(inputs: Tensors) -> BatchResult:
    if (inputs["input"] == POISON).any():
        raise BackendError("division by zero")
    return {"output": inputs["input"]}


async def status(edge: Edge, content: object) -> int:
    exchange = FakeExchange(
        "POST",
        "/v1/models/echo:predict",
        content if isinstance(content, bytes) else orjson.dumps(content),
        began_at_ns=LoopClock().now_ns(),
    )
    return (await edge.endpoint.answer(exchange)).status


@pytest.mark.field_fault("S-40", "S-34")
async def test_a_batch_that_is_shared_with_every_kind_of_failure_changes_no_status(
    tmp_path: Path,
) -> None:
    fake = FakeBackend(took_s=lambda rows: 0.009 + 0.001 * rows, model=fail_on_poison)
    echo = edges.load(onnx_models.echo(tmp_path / "echo.onnx"))
    edge = edges.serve(
        [echo],
        clock=LoopClock(),
        backend=lambda _: fake,
        promised=edges.promise(slo_ms=300),
    )
    driver = edge.catalogue.versions[0].driver
    await driver.warm_up()
    row = [1.0, 2.0]
    expected: dict[int, object] = {
        200: {"instances": [row]},
        400: b"{",
        422: {"instances": [row, [POISON, 2.0]]},
        503: {"instances": [row] * 1_000},
    }
    async with asyncio.TaskGroup() as callers:
        running = callers.create_task(status(edge, {"instances": [row]}))
        await asyncio.sleep(0.001)
        asked = {
            code: callers.create_task(status(edge, content)) for code, content in expected.items()
        }
    assert {code: task.result() for code, task in asked.items()} == {code: code for code in asked}
    assert running.result() == 200
    assert max(fake.rows[-4:]) > 1  # they shared a batch
    fake.took_s = 1.0
    assert (
        await asyncio.gather(*(status(edge, {"instances": [row]}) for _ in range(3))) == [504] * 3
    )
    await driver.aclose()
