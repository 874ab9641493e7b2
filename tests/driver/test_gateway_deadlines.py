"""What callers wish for and what they are refused, through the scheduler, on virtual time.

One row of the model takes 10 ms, and each further one 1 ms.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.errors import BackendError, SettingError
from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate.units import ms_to_ns
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.ports import BatchResult

pytestmark = pytest.mark.looptime

INFER = "/v2/models/echo/infer"
PREDICT = "/v1/models/echo:predict"
ROW = [1.0, 2.0]


def took_s(rows: int) -> float:
    return 0.009 + 0.001 * rows


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@asynccontextmanager
async def serving(
    model: Model,
    *,
    slo_ms: float = 100.0,
    best_effort: bool = False,
    backend: FakeBackend | None = None,
    limits: BatchLimits | None = None,
) -> AsyncIterator[tuple[Edge, FakeBackend]]:
    used = backend or FakeBackend(took_s=took_s, model=model.run)
    edge = edges.serve(
        [model],
        clock=LoopClock(),
        backend=lambda _: used,
        limits=limits,
        promised=edges.promise(slo_ms=slo_ms, best_effort=best_effort),
    )
    driver = edge.catalogue.versions[0].driver
    try:
        await driver.warm_up()
        used.begun.clear()
        yield edge, used
    finally:
        await driver.aclose()
        assert driver.statistics().unaccounted == 0
        assert edge.metrics.arrivals["echo"] == sum(edge.metrics.ended.values())


def infer(*rows: list[float], header: str | None = None, **parameters: object) -> FakeExchange:
    tensor = {
        "name": "input",
        "shape": [len(rows), 2],
        "datatype": "FP32",
        "data": [number for row in rows for number in row],
    }
    return post(INFER, {"inputs": [tensor], "parameters": parameters}, header)


def predict(*rows: list[float], header: str | None = None, **parameters: object) -> FakeExchange:
    return post(PREDICT, {"instances": [*rows], "parameters": parameters}, header)


def post(path: str, content: dict[str, object], header: str | None) -> FakeExchange:
    headers = {} if header is None else {"tidegate-deadline-ms": header}
    return FakeExchange(
        "POST", path, orjson.dumps(content), headers=headers, began_at_ns=LoopClock().now_ns()
    )


def hidden(exchange: FakeExchange) -> FakeExchange:
    """Spell the same question so that no glance at its bytes finds the word."""
    body = exchange.body.result().replace(b'"timeout"', rb'"time\u006fut"')
    named = {**exchange.headers, "content-length": str(len(body))}
    return FakeExchange(
        exchange.method, exchange.path, body, headers=named, began_at_ns=exchange.began_at_ns
    )


async def timed(edge: Edge, exchange: FakeExchange) -> tuple[int, str, float]:
    """Answer it, and return status, code and milliseconds."""
    loop = asyncio.get_running_loop()
    began_at_s = loop.time()
    reply = await edge.endpoint.answer(exchange)
    return reply.status, code(reply), round((loop.time() - began_at_s) * 1e3, 3)


def code(reply: Reply) -> str:
    return "" if reply.status == 200 else str(orjson.loads(reply.body)["code"])


def details(reply: Reply) -> dict[str, object]:
    found: dict[str, object] = orjson.loads(reply.body)["details"]
    return found


def stalling(seconds: float) -> FakeBackend:
    """A backend of which every call after the warm-up hangs for a while, and cannot be stopped."""
    backend = FakeBackend(took_s=took_s, can_terminate=False)
    backend.took_s = lambda rows: seconds if LoopClock().now_ns() > STALL_FROM_NS else took_s(rows)
    return backend


STALL_FROM_NS = 3_000_000_000


@pytest.mark.field_fault("S-25", "S-27", "S-44")
@pytest.mark.parametrize(
    ("exchange", "ends_ms"),
    [
        pytest.param(lambda: infer(ROW, timeout=50_000), 50, id="timeout"),
        pytest.param(lambda: infer(ROW, header="40"), 40, id="header"),
        pytest.param(lambda: infer(ROW, header="40", timeout=30_000), 30, id="both"),
        pytest.param(lambda: predict(ROW, timeout=50_000), 50, id="timeout of v1"),
        pytest.param(lambda: predict(ROW, header="40"), 40, id="header of v1"),
        pytest.param(lambda: infer(ROW), 100, id="objective"),
        pytest.param(lambda: infer(ROW, timeout=0), 100, id="none"),
        pytest.param(lambda: infer(ROW, header="250"), 250, id="longer"),
        pytest.param(lambda: infer(ROW, header="4000"), 4_000, id="much longer"),
        pytest.param(lambda: hidden(infer(ROW, timeout=50_000)), 50, id="hidden"),
        pytest.param(lambda: hidden(infer(ROW, header="40", timeout=30_000)), 30, id="hidden too"),
    ],
)
async def test_an_accepted_request_ends_at_its_deadline_whatever_the_model_does(
    echo: Model, exchange: object, ends_ms: float
) -> None:
    assert callable(exchange)
    async with serving(echo, backend=stalling(100)) as (edge, _):
        await asyncio.sleep(5)
        found = await timed(edge, exchange())
        assert found == (504, "deadline_expired", ends_ms)


@pytest.mark.field_fault("S-31")
async def test_nobody_waits_for_a_call_that_hangs_however_long_he_would(echo: Model) -> None:
    async with serving(echo, backend=stalling(100)) as (edge, _):
        await asyncio.sleep(5)
        found = await timed(edge, infer(ROW, header="99999999"))
        assert found == (500, "model_failed", 5_000)  # no 503: his row may be why, so no retries


@pytest.mark.field_fault("S-31")
async def test_a_model_is_not_ready_while_what_runs_it_is_being_replaced(echo: Model) -> None:
    backend = stalling(100)
    backend.replacing_takes_s = 3.0
    async with serving(echo, backend=backend) as (edge, _):
        await asyncio.sleep(5)
        await timed(edge, infer(ROW, header="99999999"))
        ready = FakeExchange(path="/v2/models/echo/ready", method="GET")
        reply = await edge.endpoint.answer(ready)
        assert (reply.status, code(reply)) == (503, "not_ready")
        assert await timed(edge, infer(ROW)) == (503, "backend_unavailable", 0)
        await asyncio.sleep(3)
        assert (await edge.endpoint.answer(ready)).status == 200


@pytest.mark.parametrize(("header", "ends_ms"), [("80", 80), (None, 130)])
async def test_a_wish_runs_from_the_headers_even_while_the_body_is_coming(
    echo: Model, header: str | None, ends_ms: float
) -> None:
    async with serving(echo, backend=stalling(100)) as (edge, _):
        await asyncio.sleep(5)
        slow = FakeExchange.uploading(INFER, began_at_ns=LoopClock().now_ns())
        slow.headers |= {} if header is None else {"tidegate-deadline-ms": header}
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(timed(edge, slow))
            await asyncio.sleep(0.030)
            slow.body.set_result(infer(ROW).body.result())
        assert answering.result() == (504, "deadline_expired", ends_ms)


@pytest.mark.field_fault("S-23")
@pytest.mark.parametrize(
    "exchange",
    [
        pytest.param(lambda: infer(ROW, header="0"), id="header"),
        pytest.param(lambda: infer(ROW, timeout=-1), id="negative"),
        pytest.param(lambda: infer(ROW, timeout=2.5), id="fraction"),
        pytest.param(lambda: predict(ROW, timeout="soon"), id="words"),
        pytest.param(lambda: predict(ROW, timeout=10**12), id="absurd"),
        pytest.param(lambda: predict(ROW, priority=-1), id="priority"),
    ],
)
async def test_a_wish_that_cannot_be_meant_is_refused_and_nothing_runs(
    echo: Model, exchange: object
) -> None:
    assert callable(exchange)
    async with serving(echo) as (edge, backend):
        assert await timed(edge, exchange()) == (400, "bad_option", 0)
        assert backend.rows == []


@pytest.mark.field_fault("S-23")
async def test_a_deadline_that_no_idle_server_could_keep_is_422_and_says_its_unit(
    echo: Model,
) -> None:
    async with serving(echo) as (edge, backend):
        reply = await edge.endpoint.answer(infer(ROW, timeout=50))
        assert (reply.status, code(reply)) == (422, "deadline_too_short")
        assert (
            "timeout is in microseconds: 50 is 0.05 ms; one row of echo@1 needs 10 ms"
            in (orjson.loads(reply.body)["error"])
        )
        assert details(reply) == {"asked_ms": 0.05, "needed_ms": 10.0}
        assert "retry-after" not in dict(reply.headers)
        await asyncio.sleep(0.1)
        assert backend.rows == []
        assert await timed(edge, infer(ROW, header="9")) == (422, "deadline_too_short", 0)
        await asyncio.sleep(0.1)
        assert backend.rows == [
            1
        ]  # a probe: had it become quicker, this is how it would be learned
        assert await timed(edge, infer(ROW, header="11")) == (200, "", 10)
        assert {key.reason for key in edge.metrics.ended} == {"", "deadline_too_short"}


@pytest.mark.field_fault("S-21", "S-41", "S-42")
async def test_what_cannot_be_answered_in_time_is_503_at_once_with_figures(echo: Model) -> None:
    async with serving(echo, slo_ms=100) as (edge, _):
        replies = await asyncio.gather(
            *(edge.endpoint.answer(infer(ROW, [number, 0])) for number in range(400))
        )
        refused = [reply for reply in replies if reply.status == 503]
        assert {code(reply) for reply in refused} == {"deadline_unreachable"}
        assert {reply.status for reply in replies} == {200, 503}
        for reply in refused:
            found = details(reply)
            assert found.keys() == {"predicted_ms", "slo_ms", "rows_ahead", "retry_after_ms"}
            assert isinstance(found["predicted_ms"], float)
            assert found["predicted_ms"] > 100
            assert found["slo_ms"] == 100
            assert int(dict(reply.headers)["retry-after"]) >= 1
        ended = {(str(key.outcome), key.reason): n for key, n in edge.metrics.ended.items()}
        assert ended == {
            ("answered", ""): 400 - len(refused),
            ("rejected", "deadline_unreachable"): len(refused),
        }


async def test_a_longer_deadline_is_let_in_where_the_objective_is_refused(echo: Model) -> None:
    async with serving(echo, slo_ms=100) as (edge, _):
        async with asyncio.TaskGroup() as tasks:
            for number in range(400):
                tasks.create_task(edge.endpoint.answer(infer([number, 0])))
            await asyncio.sleep(0)
            assert (await timed(edge, infer(ROW)))[1:] == ("deadline_unreachable", 0)
            patient = tasks.create_task(timed(edge, infer(ROW, header="5000")))
        assert patient.result()[0] == 200


async def test_the_highest_class_is_answered_first(echo: Model) -> None:
    ended: list[int] = []

    async def ask(edge: Edge, priority: int) -> None:
        reply = await edge.endpoint.answer(infer(ROW, header="60000", priority=priority))
        assert reply.status == 200
        ended.append(priority)

    limits = BatchLimits(memory_rows=1)
    async with (
        serving(echo, slo_ms=100, limits=limits) as (edge, _),
        asyncio.TaskGroup() as tasks,
    ):
        for priority in (3, 9, 3, 1, 1, 1):
            tasks.create_task(ask(edge, priority))
    # The first one found the model idle.
    assert ended == [3, 1, 1, 1, 9, 3]


@pytest.mark.field_fault("S-20")
@pytest.mark.parametrize("batching", [True, False])
@pytest.mark.parametrize("objective", [True, False])
async def test_objective_and_batching_are_apart(
    echo: Model, batching: bool, objective: bool
) -> None:
    limits = BatchLimits() if batching else BatchLimits(memory_rows=1)
    async with serving(echo, slo_ms=65, best_effort=not objective, limits=limits) as (edge, used):
        replies = await asyncio.gather(*(edge.endpoint.answer(infer(ROW)) for _ in range(50)))
        counts = {status: sum(r.status == status for r in replies) for status in (200, 503, 504)}
        largest = max(used.rows)
    assert (largest > 1) == batching
    if not objective:
        assert counts == {200: 50, 503: 0, 504: 0}
    elif batching:
        assert counts[200] > 6
    else:
        assert counts == {200: 6, 503: 44, 504: 0}  # one after the other, 10 ms each, within 65


@pytest.mark.field_fault("S-13", "S-19")
async def test_an_objective_that_one_row_misses_is_refused_at_the_start_with_both_numbers(
    echo: Model,
) -> None:
    with pytest.raises(SettingError) as refused:
        async with serving(echo, slo_ms=8):
            pass
    assert str(refused.value).endswith(
        "one row takes 10 ms at p99, the objective is 8 ms; raise slo_ms, use a faster variant, "
        "or set best_effort = true"
    )
    async with serving(echo, slo_ms=8, best_effort=True) as (edge, _):
        assert await timed(edge, infer(ROW)) == (200, "", 10)


def raising_on_nan(inputs: Tensors) -> BatchResult:
    if np.isnan(inputs["input"]).any() or (inputs["input"] == -1).any():
        return BackendError("node /secret/path failed")
    return {"output": inputs["input"]}


async def test_a_poison_row_is_found_and_named_and_its_mates_are_answered(echo: Model) -> None:
    backend = FakeBackend(took_s=took_s, model=raising_on_nan)
    async with serving(echo, slo_ms=1_000, backend=backend) as (edge, used):
        replies = await asyncio.gather(
            edge.endpoint.answer(infer(ROW)),
            edge.endpoint.answer(infer(ROW, ROW)),
            edge.endpoint.answer(infer(ROW, [5, 6], [-1, 0])),
            edge.endpoint.answer(predict([7, 8])),
        )
        assert [reply.status for reply in replies] == [200, 200, 422, 200]
        assert code(replies[2]) == "poison_input"
        assert details(replies[2]) == {"row": 2}
        assert b"secret" not in replies[2].body
        calls = len(used.rows)
        again = await timed(edge, predict([-1, 0]))
        assert again == (422, "poison_input", 0)
        assert len(used.rows) == calls  # it was remembered, and nothing ran
        ended = {(str(key.outcome), key.reason): n for key, n in edge.metrics.ended.items()}
        assert ended == {("answered", ""): 3, ("failed", "poison_input"): 2}
        await asyncio.sleep(400)
        assert (await timed(edge, predict([-1, 0])))[2] > 0  # forgotten, and tried again


@pytest.mark.field_fault("S-41")
async def test_a_backend_that_hangs_is_503_for_those_who_come_later(echo: Model) -> None:
    async with serving(echo, backend=stalling(100)) as (edge, _):
        await asyncio.sleep(5)
        assert await timed(edge, infer(ROW)) == (504, "deadline_expired", 100)
        reply = await edge.endpoint.answer(infer(ROW))
        assert (reply.status, code(reply)) == (503, "backend_unavailable")
        assert int(dict(reply.headers)["retry-after"]) >= 1


async def test_a_hiccup_of_a_quick_model_is_no_hang(echo: Model) -> None:
    backend = FakeBackend(took_s=30e-6)
    async with serving(echo, slo_ms=100, backend=backend) as (edge, _):
        backend.took_s = 0.020
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(timed(edge, infer(ROW)))
            await asyncio.sleep(0.010)
            backend.took_s = 30e-6
            assert await timed(edge, infer(ROW)) == (200, "", 10.03)


async def test_one_stall_of_the_process_does_not_shut_everybody_out(echo: Model) -> None:
    async with serving(echo, slo_ms=100) as (edge, _):
        assert (await timed(edge, infer(ROW)))[0] == 200
        edge.catalogue.versions[0].driver.on_reply(ms_to_ns(500))
        for _ in range(3):
            assert (await timed(edge, infer(ROW)))[0] == 200


@pytest.mark.field_fault("S-16")
async def test_a_larger_budget_measures_more_before_the_first_caller(echo: Model) -> None:
    async def runs(budget_ms: float) -> int:
        backend = FakeBackend(took_s=took_s)
        promised = edges.promise(slo_ms=100, budget_ms=budget_ms)
        edge = edges.serve([echo], clock=LoopClock(), backend=lambda _: backend, promised=promised)
        driver = edge.catalogue.versions[0].driver
        await driver.warm_up()
        await driver.aclose()
        return len(backend.begun)

    assert await runs(100) < await runs(2_000)
