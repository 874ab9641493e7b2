"""Requests from their bytes to their replies, through the real driver, on virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.api.served import State
from tidegate_realtime.core.limits import BatchLimits

pytestmark = pytest.mark.looptime

INFER = "/v2/models/echo/infer"
PREDICT = "/v1/models/echo:predict"


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@asynccontextmanager
async def serving(
    model: Model,
    *,
    backend: FakeBackend | None = None,
    slo_ms: float = 100.0,
    limits: BatchLimits | None = None,
) -> AsyncIterator[tuple[Edge, FakeBackend]]:
    """Serve one model, and check at the end that every request ended exactly once."""
    used = backend or FakeBackend(model=model.run)
    edge = edges.serve(
        [model], clock=LoopClock(), backend=lambda _: used, slo_ms=slo_ms, limits=limits
    )
    try:
        yield edge, used
    finally:
        await edge.catalogue.versions[0].driver.aclose()
        statistics = edge.catalogue.versions[0].driver.statistics()
        assert statistics.unaccounted == 0
        assert edge.metrics.arrivals - edge.metrics.in_flight == ended_by_model(edge)


def ended_by_model(edge: Edge) -> Counter[str]:
    ended: Counter[str] = Counter()
    for key, count in edge.metrics.ended.items():
        ended[key.model] += count
    return ended


def infer_body(*rows: list[float], **outside: object) -> bytes:
    tensor = {"name": "input", "shape": [len(rows), 2], "datatype": "FP32", "data": rows}
    return orjson.dumps({"inputs": [tensor], **outside})


def post(path: str, body: bytes, **headers: str) -> FakeExchange:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return FakeExchange("POST", path, body, headers=named, began_at_ns=LoopClock().now_ns())


def content(reply: Reply) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(reply.body)
    return read


def endings(edge: Edge) -> dict[tuple[str, str], int]:
    return {(str(key.outcome), key.reason): count for key, count in edge.metrics.ended.items()}


@pytest.mark.field_fault("P-03", "P-06")
async def test_a_prediction_carries_its_tag_in_body_and_headers(echo: Model) -> None:
    async with serving(echo) as (edge, _):
        reply = await edge.endpoint.answer(post(INFER, infer_body([1, 2], id="")))
        assert reply.status == 200
        assert content(reply) == {
            "model_name": "echo",
            "model_version": "1",
            "id": "",
            "parameters": {
                "tidegate_digest": edges.DIGEST,
                "tidegate_variant": "default",
                "tidegate_served_by": "model",
            },
            "outputs": [
                {"name": "output", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}
            ],
        }
        assert reply.headers == [
            ("content-type", "application/json"),
            ("x-tidegate-model", "echo"),
            ("x-tidegate-version", "1"),
            ("x-tidegate-digest", edges.DIGEST),
            ("x-tidegate-served-by", "model"),
            ("x-request-id", "test-1"),
        ]


async def test_the_friendly_form_is_answered_in_the_order_of_the_instances(echo: Model) -> None:
    async with serving(echo) as (edge, _):
        body = orjson.dumps({"instances": [[1, 2], [3, 4.5]]})
        reply = await edge.endpoint.answer(post(PREDICT, body, x_request_id="mine"))
        assert content(reply) == {
            "predictions": [[1.0, 2.0], [3.0, 4.5]],
            "model_name": "echo",
            "model_version": "1",
            "model_digest": edges.DIGEST,
            "served_by": "model",
            "request_id": "mine",
        }


@pytest.mark.parametrize(
    ("header", "given", "expected"),
    [("h-1", "b-1", "h-1"), (None, "b-1", "b-1"), ("no good", "b-1", "b-1"), (None, "é", "test-")],
)
async def test_a_request_is_named_by_its_header_else_its_id_else_by_us(
    echo: Model, header: str | None, given: str, expected: str
) -> None:
    async with serving(echo) as (edge, _):
        headers = {"x_request_id": header} if header else {}
        reply = await edge.endpoint.answer(post(INFER, infer_body([1, 2], id=given), **headers))
        assert dict(reply.headers)["x-request-id"].startswith(expected)
        assert content(reply)["id"] == given


@pytest.mark.field_fault("S-29", "S-37")
async def test_a_request_that_is_not_answered_in_time_is_504_at_that_time(echo: Model) -> None:
    async with serving(echo, backend=FakeBackend(took_s=0.3), slo_ms=100) as (edge, backend):
        replies = await asyncio.gather(
            edge.endpoint.answer(post(INFER, infer_body([1, 2]))),
            edge.endpoint.answer(post(INFER, infer_body([3, 4]))),
        )
        assert asyncio.get_running_loop().time() == pytest.approx(0.1)
        assert [reply.status for reply in replies] == [504, 504]
        assert content(replies[1])["details"] == {
            "queued_ms": 100.0,
            "executed_ms": 0.0,
            "limit_ms": 100.0,
        }
        assert endings(edge) == {("expired", "deadline_expired"): 2}
    assert backend.rows == [1]  # the second one never ran


@pytest.mark.field_fault("S-26", "S-36")
async def test_a_caller_who_leaves_the_queue_is_never_executed(echo: Model) -> None:
    async with serving(echo, backend=FakeBackend(took_s=0.04)) as (edge, backend):
        async with asyncio.TaskGroup() as callers:
            running = post(INFER, infer_body([1, 2]))
            queued = post(INFER, infer_body([3, 4]))
            staying = post(INFER, infer_body([5, 6]))
            answers = [
                callers.create_task(edge.endpoint.answer(exchange))
                for exchange in (running, queued, staying)
            ]
            await asyncio.sleep(0.01)
            queued.depart()
        assert [answer.result().status for answer in answers] == [200, 499, 200]
        assert content(answers[2].result())["outputs"][0]["data"] == [5.0, 6.0]
        assert endings(edge) == {("answered", ""): 2, ("cancelled", "caller_left"): 1}
    assert backend.rows == [1, 1]


async def test_a_caller_who_had_left_before_its_body_was_read_is_not_executed(echo: Model) -> None:
    async with serving(echo) as (edge, backend):
        gone = post(INFER, infer_body([1, 2]))
        gone.depart()
        occupying = edge.endpoint.answer(post(INFER, infer_body([1, 2])))
        replies = await asyncio.gather(occupying, edge.endpoint.answer(gone))
        assert replies[1].status == 499
    assert backend.rows == [1]


async def test_a_server_that_cancels_the_task_is_a_caller_who_left(echo: Model) -> None:
    async with serving(echo, backend=FakeBackend(took_s=0.05)) as (edge, _):
        answering = asyncio.get_running_loop().create_task(
            edge.endpoint.answer(post(INFER, infer_body([1, 2])))
        )
        await asyncio.sleep(0.01)
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        assert endings(edge) == {("cancelled", "caller_left"): 1}


@pytest.mark.field_fault("S-38", "S-41")
async def test_a_full_queue_is_refused_at_once_with_when_to_come_back(echo: Model) -> None:
    limits = BatchLimits(cap_rows=2, queue_limit_rows=2)
    async with serving(echo, backend=FakeBackend(took_s=0.05), limits=limits) as (edge, _):
        async with asyncio.TaskGroup() as callers:
            for _ in range(2):
                callers.create_task(edge.endpoint.answer(post(INFER, infer_body([1, 2], [3, 4]))))
            await asyncio.sleep(0.001)
            refused = await edge.endpoint.answer(post(INFER, infer_body([1, 2])))
            assert asyncio.get_running_loop().time() == pytest.approx(0.001)
        assert refused.status == 503
        assert content(refused)["code"] == "queue_full"
        assert int(dict(refused.headers)["retry-after"]) >= 1
        assert content(refused)["details"]["retry_after_ms"] > 0


async def test_a_drain_refuses_what_comes_and_answers_what_is_there(echo: Model) -> None:
    async with serving(echo, backend=FakeBackend(took_s=0.05)) as (edge, _):
        async with asyncio.TaskGroup() as callers:
            admitted = callers.create_task(edge.endpoint.answer(post(INFER, infer_body([1, 2]))))
            await asyncio.sleep(0.001)
            edge.catalogue.readiness.state = State.DRAINING
            late = await edge.endpoint.answer(post(INFER, infer_body([1, 2])))
            ready = await edge.endpoint.answer(FakeExchange("GET", "/v2/health/ready"))
            live = await edge.endpoint.answer(FakeExchange("GET", "/v2/health/live"))
        assert admitted.result().status == 200
        assert (late.status, content(late)["code"]) == (503, "draining")
        assert dict(late.headers)["retry-after"] == "1"
        assert ready.status == 503
        assert content(ready).items() >= {"live": True, "ready": False, "code": "draining"}.items()
        assert (live.status, content(live)) == (200, {"live": True, "ready": False})


@pytest.mark.field_fault("P-15")
@pytest.mark.parametrize("kind", [BackendError, OutOfMemoryError, DeviceLostError])
async def test_a_model_that_fails_is_500_without_its_reason(
    echo: Model, kind: type[BackendError]
) -> None:
    def raising(_: Tensors) -> Tensors:
        raise kind("node /secret/path failed")

    async with serving(echo, backend=FakeBackend(model=raising)) as (edge, _):
        reply = await edge.endpoint.answer(post(INFER, infer_body([1, 2])))
        assert (reply.status, content(reply)["code"]) == (500, kind.code)
        assert b"secret" not in reply.body
        assert endings(edge) == {("failed", kind.code): 1}


def nans(inputs: Tensors) -> Tensors:
    return {"output": np.full_like(inputs["input"], np.nan)}


@pytest.mark.field_fault("P-12")
@pytest.mark.parametrize("path", [INFER, PREDICT])
async def test_a_non_finite_answer_is_an_error_and_not_null(echo: Model, path: str) -> None:
    body = infer_body([1, 2]) if path == INFER else orjson.dumps({"instances": [[1, 2]]})
    async with serving(echo, backend=FakeBackend(model=nans)) as (edge, _):
        reply = await edge.endpoint.answer(post(path, body))
        assert (reply.status, content(reply)["code"]) == (500, "non_finite_output")


def broken(_: Tensors) -> Tensors:
    return {}


async def test_a_bug_of_ours_is_a_sentence_for_callers_and_a_stack_now_and_then_in_the_log(
    echo: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(echo, backend=FakeBackend(model=broken)) as (edge, _):
        for number in range(5):
            named = post(INFER, infer_body([1, 2]), x_request_id=f"r-{number}")
            reply = await edge.endpoint.answer(named)
            assert (reply.status, content(reply)["code"]) == (500, "internal")
            assert b"KeyError" not in reply.body
            await asyncio.sleep(0.3)
    lines = [orjson.loads(line) for line in capsys.readouterr().err.splitlines()]
    told = [line for line in lines if line["event"] == "request_failed"]
    assert [(line["request_id"], line["untold"]) for line in told] == [("r-0", 0), ("r-4", 3)]
    assert "KeyError" in told[0]["exception"]


REFUSED: list[tuple[str, Callable[[], FakeExchange], int, str]] = [
    ("no route", lambda: post("/v2/nothing", b""), 404, "route_not_found"),
    ("method", lambda: FakeExchange("GET", INFER), 405, "method_not_allowed"),
    ("uri", lambda: post("/" + "a" * 8192, b""), 414, "uri_too_long"),
    ("model", lambda: post("/v2/models/other/infer", b"{}"), 404, "model_not_found"),
    (
        "version",
        lambda: post("/v2/models/echo/versions/7/infer", b"{}"),
        404,
        "version_not_served",
    ),
    ("alias", lambda: post("/v2/models/echo/versions/no/infer", b"{}"), 404, "version_not_served"),
    ("brotli", lambda: post(INFER, b"{}", content_encoding="br"), 415, "unsupported_encoding"),
    ("gzip", lambda: post(INFER, b"{}", content_encoding="gzip"), 400, "malformed_request"),
    ("large", lambda: post(INFER, b"", content_length="67108865"), 413, "body_too_large"),
    ("length", lambda: post(INFER, b"", content_length="-1"), 400, "malformed_request"),
    (
        "smuggling",
        lambda: post(INFER, b"{}", transfer_encoding="chunked"),
        400,
        "malformed_request",
    ),
    (
        "layout",
        lambda: post(INFER, infer_body([1, 2]), inference_header_content_length="9999"),
        400,
        "binary_layout",
    ),
    ("json", lambda: post(INFER, b"{"), 400, "malformed_json"),
    ("empty", lambda: post(PREDICT, b'{"instances":[]}'), 400, "malformed_request"),
    ("columnar", lambda: post(PREDICT, b'{"inputs":{}}'), 400, "malformed_request"),
    ("b64", lambda: post(PREDICT, b'{"instances":[{"b64":"!"}]}'), 400, "malformed_request"),
    ("row", lambda: post(PREDICT, b'{"instances":[[1,2,3]]}'), 422, "signature_mismatch"),
    (
        "output",
        lambda: post(INFER, infer_body([1, 2], outputs=[{"name": "no"}])),
        422,
        "signature_mismatch",
    ),
]


@pytest.mark.field_fault("P-09", "P-16")
@pytest.mark.parametrize(
    ("exchange", "status", "code"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED]
)
async def test_bad_input_is_refused_with_its_code_and_executes_nothing(
    echo: Model, exchange: Callable[[], FakeExchange], status: int, code: str
) -> None:
    async with serving(echo) as (edge, backend):
        reply = await edge.endpoint.answer(exchange())
        assert (reply.status, content(reply)["code"]) == (status, code)
        assert content(reply)["error"].endswith(".")
        assert dict(reply.headers)["x-request-id"] == content(reply)["request_id"]
    assert backend.rows == []


@pytest.mark.field_fault("P-06")
async def test_a_header_length_that_is_the_whole_body_is_plain_json(echo: Model) -> None:
    body = infer_body([1, 2])
    async with serving(echo) as (edge, _):
        exchange = post(INFER, body, inference_header_content_length=str(len(body)))
        assert (await edge.endpoint.answer(exchange)).status == 200


async def test_a_pinned_version_and_an_alias_are_looked_up_and_nothing_else(tmp_path: Path) -> None:
    file = onnx_models.echo(tmp_path / "echo.onnx")
    models = [edges.load(file, version=number) for number in (3, 12)]
    edge = edges.serve(models, clock=LoopClock())
    found = {}
    for at in ("", "/versions/3", "/versions/12", "/versions/stable"):
        reply = await edge.endpoint.answer(post(f"/v2/models/echo{at}/infer", infer_body([1, 2])))
        found[at] = content(reply)["model_version"]
    assert found == {"": "12", "/versions/3": "3", "/versions/12": "12", "/versions/stable": "12"}
    missing = await edge.endpoint.answer(post("/v2/models/echo/versions/7/infer", b""))
    assert content(missing)["details"] == {"served": [3, 12]}
    for served in edge.catalogue.versions:
        await served.driver.aclose()
