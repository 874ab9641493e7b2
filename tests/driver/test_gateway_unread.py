"""Under overload a request is refused before it is decoded, where that is certain."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.driver.test_gateway_deadlines import ROW, code, details, infer, serving
from tests.fakes.driving import in_ms
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.inference.model import Model
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.runtime.buckets import Driver
from tidegate_realtime.runtime.outcomes import Rejected

pytestmark = pytest.mark.looptime

BURST = 400
"""Rows that come at once; the model takes about a hundred in 100 ms."""


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


async def burst(edge: Edge, tasks: asyncio.TaskGroup) -> list[asyncio.Task[Reply]]:
    """Ask many times within a millisecond, and let each be looked at."""
    asking = [tasks.create_task(edge.endpoint.answer(infer(ROW))) for _ in range(BURST)]
    await asyncio.sleep(0.001)
    return asking


@pytest.mark.field_fault("S-38")
async def test_what_nobody_could_answer_is_refused_unread_and_counted(
    echo: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(echo) as (edge, _):
        async with asyncio.TaskGroup() as tasks:
            asking = await burst(edge, tasks)
            unreadable = infer(ROW)
            unreadable.body = asyncio.get_running_loop().create_future()
            unreadable.body.set_result(b"this is no JSON")
            reply = await edge.endpoint.answer(unreadable)
            assert (reply.status, code(reply)) == (503, "deadline_unreachable")
            predicted_ms = details(reply)["predicted_ms"]
            assert isinstance(predicted_ms, float)
            assert predicted_ms > 100
        refused = sum(task.result().status == 503 for task in asking)
        statistics = edge.catalogue.versions[0].driver.statistics()
        assert statistics.rejected_by_code["deadline_unreachable"] == refused + 1
        assert statistics.refused_unread >= 1
    log = capsys.readouterr().err  # the driver has compared what arrived with what ended
    assert "model_closed" in log
    assert "totals_differ" not in log


async def test_a_body_that_may_name_a_wish_is_read(echo: Model) -> None:
    async with serving(echo) as (edge, _), asyncio.TaskGroup() as tasks:
        await burst(edge, tasks)
        reply = await edge.endpoint.answer(infer(ROW, timeout=5_000_000))
        assert reply.status == 200  # it has more time than the others


async def test_where_there_is_room_every_body_is_read(echo: Model) -> None:
    async with serving(echo) as (edge, _):
        unreadable = infer(ROW)
        unreadable.body = asyncio.get_running_loop().create_future()
        unreadable.body.set_result(b"this is no JSON")
        reply = await edge.endpoint.answer(unreadable)
        assert (reply.status, code(reply)) == (400, "malformed_json")


async def test_only_after_a_refusal_others_are_looked_at_unread(echo: Model) -> None:
    async with serving(echo) as (edge, _):
        admitted = (await until_refused(edge.catalogue.versions[0].driver, most=BURST)) - 1
    async with serving(echo) as (edge, _):
        driver = edge.catalogue.versions[0].driver
        assert await until_refused(driver, most=admitted) == admitted
        assert look(driver) is None  # nobody has been refused, although the next one will be
        assert await until_refused(driver, most=1) == 1
        assert look(driver) is not None


async def until_refused(driver: Driver, *, most: int) -> int:
    """Send one row after the other at one instant; return how many, the refused one included."""
    for number in range(1, most + 1):
        row = {"input": np.array([ROW], np.float32)}
        ticket = driver.submit(row, rows=1, deadline_at_ns=in_ms(100))
        if ticket.future.done():
            return number
    return most


def look(driver: Driver) -> Rejected | None:
    now_ns = LoopClock().now_ns()
    return driver.refuse_unread(deadline_at_ns=in_ms(100), arrived_at_ns=now_ns, priority=2)
