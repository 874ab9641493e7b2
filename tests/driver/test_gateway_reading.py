"""Images through the gateway on virtual time: decoding takes 0.1 s, the model 10 ms, of 200 ms."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from onnx import helper

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.grpc_context import FakeContext
from tests.fakes.loop_clock import LoopClock
from tests.fakes.readers import VirtualExecutor, virtual_readers
from tests.fixtures import edges, onnx_models
from tests.fixtures.images import encoded, quarters
from tidegate.artifacts.manifest import TransformSpec
from tidegate.artifacts.transform_specs import ImageSpec
from tidegate.inference.model import Model
from tidegate.keys.access import Access
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.api.edge import Edge, build_edge
from tidegate_realtime.api.grpc.calls import Call
from tidegate_realtime.api.grpc.question import GrpcQuestion
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.served import State

pytestmark = pytest.mark.looptime

IMAGE = encoded(quarters(4))
BODY = orjson.dumps({"instances": [{"image": {"b64": base64.b64encode(IMAGE).decode()}}]})


@pytest.fixture
def pages(tmp_path: Path) -> Model:
    shape = ("rows", 1, 2, 2)
    file = onnx_models.save(
        tmp_path / "pages.onnx",
        [helper.make_node("Identity", ["input"], ["output"])],
        [onnx_models.floats("input", *shape)],
        [onnx_models.floats("output", *shape)],
    )
    spec = ImageSpec(size=(2, 2), input="input", channels="gray")
    return edges.load(file, name="pages", transforms=TransformSpec(image=spec))


@dataclass
class Serving:
    edge: Edge
    executor: VirtualExecutor

    def request(self, *, within_ms: int | None = None, body: bytes = BODY) -> FakeExchange:
        headers = {} if within_ms is None else {"tidegate-deadline-ms": str(within_ms)}
        now_ns = LoopClock().now_ns()
        path = "/v1/models/pages:predict"
        exchange = FakeExchange("POST", path, body, headers=headers, began_at_ns=now_ns)
        self.edge.sweeper.add(exchange)
        return exchange

    async def ask(self, exchange: FakeExchange) -> tuple[int, float, bytes]:
        """Return status, milliseconds and body, and let go of what it holds."""
        loop = asyncio.get_running_loop()
        began_at_s = loop.time()
        try:
            reply = await self.edge.endpoint.answer(exchange)
        finally:
            self.edge.sweeper.remove(exchange)
        return reply.status, round((loop.time() - began_at_s) * 1_000, 3), reply.body

    @property
    def held_bytes(self) -> int:
        return self.edge.sweeper.bodies.held_bytes

    def series(self, name: str) -> float:
        metrics, catalogue = self.edge.metrics, self.edge.catalogue
        collector = GatewayCollector(catalogue=catalogue, metrics=metrics, clock=LoopClock())
        families = list(collector.collect())
        return sum(each.value for one in families for each in one.samples if each.name == name)


@asynccontextmanager
async def serving(model: Model, *, best_effort: bool = False) -> AsyncIterator[Serving]:
    wired = edges.serve(
        [model],
        clock=LoopClock(),
        backend=lambda _: FakeBackend(took_s=0.010, model=model.run),
        promised=edges.promise(slo_ms=200, best_effort=best_effort),
    )
    readers, executor = virtual_readers(0.1)
    edge = build_edge(
        wired.catalogue.versions,
        clock=LoopClock(),
        draw=lambda: 0.5,
        id_prefix="test",
        policy=Policy(readers=readers),
    )
    edge.catalogue.readiness.state = State.READY
    (served,) = edge.catalogue.versions
    await served.driver.warm_up()
    try:
        yield Serving(edge, executor)
    finally:
        await served.driver.aclose()
        await edge.slow_reader.aclose()
        assert edge.sweeper.bodies.held_bytes == 0
        assert edge.metrics.in_flight.total() == 0
        assert edge.metrics.arrivals["pages"] == sum(edge.metrics.ended.values())


async def test_in_a_burst_of_slow_images_everybody_is_told_within_the_objective(
    pages: Model,
) -> None:
    async with serving(pages) as it:
        assert (await it.ask(it.request()))[:2] == (200, 110)
        found = await asyncio.gather(*(it.ask(it.request()) for _ in range(100)))
        assert [each[:2] for each in found] == [(200, 110)] + [(503, 0)] * 99
        said = orjson.loads(found[1][2])
        assert said["code"] == "deadline_unreachable"
        assert said["details"] == {
            "predicted_ms": 210,
            "slo_ms": 200,
            "rows_ahead": None,
            "retry_after_ms": 10,
        }
        assert it.executor.begun == 2  # nothing is decoded for nobody
        ended = {(key.outcome, key.reason): n for key, n in it.edge.metrics.ended.items()}
        assert ended == {("answered", ""): 2, ("rejected", "deadline_unreachable"): 99}
        assert it.series("tidegate_reading_seconds_count") == 2
        assert it.series("tidegate_reading_seconds_sum") == pytest.approx(0.2)
        assert it.series("tidegate_refusal_seconds_count") == 99


async def test_what_was_spent_on_decoding_is_not_reckoned_with_again_behind_it(
    pages: Model,
) -> None:
    async with serving(pages) as it:
        for _ in range(20):
            assert (await it.ask(it.request()))[:2] == (200, 110)


async def test_a_refusal_says_when_to_come_back_and_a_longer_deadline_is_waited_for(
    pages: Model,
) -> None:
    async with serving(pages) as it:
        await it.ask(it.request())
        first, second = await asyncio.gather(
            it.ask(it.request()), it.ask(it.request(within_ms=300))
        )
        assert (first[:2], second[:2]) == ((200, 110), (200, 210))
        exchange = it.request(within_ms=105)
        reply = await it.edge.endpoint.answer(exchange)
        it.edge.sweeper.remove(exchange)
        assert (reply.status, dict(reply.headers)["retry-after"]) == (503, "1")


async def test_at_its_deadline_a_request_ends_with_504_even_while_it_is_decoded(
    pages: Model,
) -> None:
    async with serving(pages) as it:
        it.executor.takes_s = 1.0
        asking = [it.ask(it.request()) for _ in range(2)]
        (status, took_ms, body), other = await asyncio.gather(*asking)
        assert (status, took_ms) == (504, 200)
        assert other[:2] == (504, 200)  # it waited
        assert orjson.loads(body)["error"] == (
            "Not answered within 200.0 ms: its texts or images were still to be decoded."
        )
        assert it.held_bytes == len(BODY)  # of the one that a thread has
        assert it.executor.begun == 1
        assert it.series("tidegate_requests_total") == 2
        await asyncio.sleep(1)
        assert it.held_bytes == 0


@pytest.mark.parametrize("after_s", [0.0, 0.050])
async def test_a_caller_who_leaves_is_noticed_and_counted_once(
    pages: Model, after_s: float
) -> None:
    async with serving(pages) as it:
        first, leaving = it.request(), it.request()
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(it.ask(first))
            left = tasks.create_task(it.ask(leaving))
            await asyncio.sleep(after_s)
            assert it.series("tidegate_reading_waiting_requests") == 1
            leaving.depart()
        assert asked.result()[:2] == (200, 110)
        assert left.result()[0] == 499
        assert it.executor.begun == 1


async def test_where_everything_is_answered_nobody_is_sent_away_for_reading_takes_long(
    pages: Model,
) -> None:
    async with serving(pages, best_effort=True) as it:
        it.executor.takes_s = 5.0
        found = await asyncio.gather(*(it.ask(it.request()) for _ in range(20)))
        assert [status for status, *_ in found] == [200] * 20
        assert max(took_ms for _, took_ms, _ in found) == 100_010  # beyond any deadline


async def test_numbers_are_read_on_the_spot_and_cost_no_thread(tmp_path: Path) -> None:
    numbers = edges.load(onnx_models.echo(tmp_path / "echo.onnx"), name="pages")
    async with serving(numbers) as it:
        body = b'{"instances": [[1, 2]]}'
        assert (await it.ask(it.request(body=body)))[:2] == (200, 10)
        assert it.executor.begun == 0
        assert it.series("tidegate_reading_seconds_count") == 0


async def test_over_grpc_it_is_the_same(pages: Model) -> None:
    async with serving(pages) as it:
        tensor = ModelInferRequest.InferInputTensor(name="input", datatype="FP32")
        tensor.shape.extend([1, 1, 2, 2])
        tensor.contents.fp32_contents.extend([1, 2, 3, 4])
        raw = ModelInferRequest(model_name="pages", inputs=[tensor]).SerializeToString()

        async def ask() -> tuple[str, float]:
            now_ns = LoopClock().now_ns()
            call = Call(FakeContext().for_a_call(), began_at_ns=now_ns)
            bodies = it.edge.sweeper.bodies
            question = GrpcQuestion(raw, call, access=Access(), bodies=bodies)
            scored = await it.edge.scorer.score(question)
            question.let_go()
            took_ms = (LoopClock().now_ns() - now_ns) / 1e6
            return scored.ending.reason, took_ms

        assert await ask() == ("", 110)
        found = await asyncio.gather(*(ask() for _ in range(3)))
        assert found == [("", 110), *[("deadline_unreachable", 0)] * 2]
        it.executor.takes_s = 1.0
        assert await ask() == ("deadline_expired", 200)
        assert it.held_bytes == len(raw)
        await asyncio.sleep(1)
        assert it.held_bytes == 0


@pytest.mark.parametrize(("header", "ends"), [(None, (200, 360)), (300, (504, 300))])
async def test_a_deadline_in_the_body_is_waited_for_as_it_may_be_long(
    pages: Model, header: int | None, ends: tuple[int, float]
) -> None:
    async with serving(pages) as it:
        it.executor.takes_s = 0.350
        body = orjson.dumps({**orjson.loads(BODY), "parameters": {"timeout": 400_000}})
        found = await it.ask(it.request(within_ms=header, body=body))
        assert found[:2] == ends
