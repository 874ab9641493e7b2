"""What callers and operators are told of a model whose texts have several lengths."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.fakes.backends import BegunBatch, FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, text_models
from tidegate.inference.arrays import Tensors
from tidegate.settings import LatencyObjective
from tidegate.units import ms_to_ns
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.api.edge import Edge, build_edge
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.api.served import ServedVersion, State
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.buckets import BucketedDriver
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime
SLO_MS = 50.0


class Texts(FakeBackend):
    """A row takes 0.3 ms for each token."""

    def takes_s(self, batch: BegunBatch) -> float:
        return 0.0003 * batch.inputs["input_ids"].size


def hidden(inputs: Tensors) -> Tensors:
    return {"hidden": np.zeros((*inputs["input_ids"].shape, text_models.WIDTH), np.float32)}


@dataclass
class Serving:
    edge: Edge
    collector: GatewayCollector
    observer: Observer
    driver: BucketedDriver

    async def ask(self, tokens: int, *, within_ms: int | None = None) -> Reply:
        row = {name: [1] * tokens for name in ("input_ids", "attention_mask")}
        exchange = FakeExchange(
            "POST",
            "/v1/models/minilm:predict",
            orjson.dumps({"instances": [row]}),
            began_at_ns=LoopClock().now_ns(),
        )
        if within_ms is not None:
            exchange.headers["tidegate-deadline-ms"] = str(within_ms)
        reply = await self.edge.endpoint.answer(exchange)
        assert isinstance(reply, Reply)
        return reply

    def series(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for family in self.collector.collect()
            for sample in family.samples
            if sample.name == name and sample.labels.items() >= labels.items()
        )


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Serving]:
    model = edges.load(text_models.encoder(folder / "texts.onnx"), name="minilm")
    clock = LoopClock()
    backend = MeasuredBackend(Texts(model=hidden), clock)

    def build(name: str) -> BatchDriver:
        return BatchDriver(
            backend,
            signature=model.signature,
            limits=BatchLimits(),
            clock=clock,
            name=name,
            promise=Promise(slo_ns=ms_to_ns(SLO_MS), is_padded=False),
        )

    driver = BucketedDriver(
        build,
        signature=model.signature,
        lengths=(16, 64, 256),
        executors=1,
        clock=clock,
        name="minilm@1",
    )
    served = ServedVersion(
        model=model,
        driver=driver,
        objective=LatencyObjective(slo_ms=SLO_MS),
        objective_origin="default",
        measured=backend,
    )
    edge = build_edge([served], aliases={}, clock=clock, draw=lambda: 0.5, id_prefix="test")
    edge.catalogue.readiness.state = State.READY
    await driver.warm_up()
    backend.forget()
    backend.model_of = lambda inputs: driver.part_for(inputs).latency_model
    try:
        yield Serving(
            edge=edge,
            collector=GatewayCollector(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock),
            observer=Observer(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock),
            driver=driver,
        )
    finally:
        await asyncio.sleep(1)  # what was refused may run for nobody
        await driver.aclose()


async def test_a_text_that_is_too_long_for_the_objective_is_told_so_with_the_figures(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as it:
        assert (await it.ask(256, within_ms=200)).status == 200
        reply = await it.ask(256)
        said = orjson.loads(reply.body)
        assert (reply.status, said["code"]) == (422, "deadline_too_short")
        assert said["error"] == (
            "The objective is 50 ms, and no Tidegate-Deadline-Ms allows more; one row of minilm@1 "
            "with 65 to 256 tokens needs 76.8 ms."
        )
        assert said["details"] == {"asked_ms": 50.0, "needed_ms": 76.8}
        await asyncio.sleep(0.1)  # that one may have run for nobody
        assert (await it.ask(64)).status == 200


async def test_a_wish_is_compared_with_what_a_text_of_that_length_takes(tmp_path: Path) -> None:
    async with serving(tmp_path) as it:
        assert (await it.ask(16, within_ms=15)).status == 200
        reply = await it.ask(64, within_ms=15)
        assert reply.status == 422
        assert b"Tidegate-Deadline-Ms is 15 ms; one row of minilm@1 with 17 to 64 tokens needs" in (
            reply.body
        )


async def test_a_refusal_under_load_names_the_length_and_another_try_may_help(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as it, asyncio.TaskGroup() as callers:
        asked = [callers.create_task(it.ask(64)) for _ in range(8)]
        replies = await asyncio.gather(*asked)
        (*_, refused) = [reply for reply in replies if reply.status == 503]
        assert b"minilm@1 with 17 to 64 tokens needs about" in refused.body


async def test_the_metadata_have_the_cap_of_each_length(tmp_path: Path) -> None:
    async with serving(tmp_path) as it:
        reply = await it.edge.endpoint.answer(FakeExchange("GET", "/v2/models/minilm"))
        found = orjson.loads(reply.body)["parameters"]
        assert found["cap_rows_by_tokens"] == "1 to 16: 1, 17 to 64: 1, 65 to 256: too slow"
        assert (found["cap_tokens"], found["cap_limited_by"]) == ("1 to 16", "knee")


async def test_metrics_are_of_all_lengths_and_each_call_is_judged_by_its_own(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as it:
        for _ in range(20):
            assert {(await it.ask(16)).status, (await it.ask(64)).status} == {200}
        assert it.series("tidegate_batches_total") == 40
        assert it.series("tidegate_call_forecast_ratio_bucket", le="0.9") == 0
        assert it.series("tidegate_call_forecast_ratio_bucket", le="1.1") == 40
        assert it.series("tidegate_arrival_rows_per_second") == pytest.approx(4, abs=0.5)
        # 4.8 and 19.2 ms, one as often as the other
        assert it.series("tidegate_capacity_rows_per_second") == pytest.approx(83, abs=2)
        assert it.series("tidegate_predicted_drain_seconds") == 0


async def test_explain_says_of_which_texts_the_cap_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as it, asyncio.TaskGroup() as watching:
        watch = watching.create_task(it.observer.watch("minilm", None, window_s=2))
        for _ in range(20):
            await it.ask(16)
            await it.ask(64)
        observed = await watch
        assert (observed.tokens, observed.answered) == ("17 to 64", 40)
        assert observed.one_row_ms == pytest.approx(19.2)
