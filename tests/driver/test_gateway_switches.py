"""Fifty switches under steady traffic on virtual time: host, catalogue, edge and drivers."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.errors import DigestMismatchError
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.inference.arrays import Tensors
from tidegate.settings import LatencyObjective
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.api.edge import Edge, build_edge
from tidegate_realtime.api.served import ServedVersion, State
from tidegate_realtime.api.shelf import CatalogueShelf
from tidegate_realtime.core.asked import Pointed
from tidegate_realtime.core.lifecycle import Lifecycle
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.following import follow_aliases
from tidegate_realtime.runtime.hosting import ModelHost

pytestmark = pytest.mark.looptime

CORRUPT = 3
SWITCHES = 50
CALL_S = 0.05
"""Of a batch."""
PAUSE_S = 0.02
"""Between two requests, of which each third has more rows than a batch may have."""


@dataclass(frozen=True)
class Files:
    version: Version
    size_bytes: int = 1


@dataclass
class Store:
    """Version n multiplies by n; loading takes half a second, and version 3 is corrupt."""

    file: Path
    stable: int = 1
    revision: int = 1
    closed: list[ServedVersion] = field(default_factory=list)

    def move(self, version: int) -> None:
        self.stable, self.revision = version, self.revision + 1

    async def pointed(self, name: ModelName) -> Pointed:
        return Pointed(aliases={Alias("stable"): Version(self.stable)}, revision=self.revision)

    async def resolve(self, ref: ModelRef) -> Pointed:
        return await self.pointed(ref.name)

    async def fetch(self, name: ModelName, version: Version) -> Files:
        await asyncio.sleep(0.2)
        if version == CORRUPT:
            raise DigestMismatchError("it is another")
        return Files(version)

    async def load(self, files: Files) -> ServedVersion:
        await asyncio.sleep(0.3)
        model = edges.load(self.file, name="risk", version=files.version)
        return ServedVersion(
            model=model,
            driver=BatchDriver(
                FakeBackend(model=multiply_by(files.version), took_s=CALL_S),
                signature=model.signature,
                limits=BatchLimits(cap_rows=8),
                clock=LoopClock(),
                name=str(model.tag),
            ),
            objective=LatencyObjective(slo_ms=60_000),
            objective_origin="default",
        )

    async def warm_up(self, hosted: ServedVersion) -> None:
        await hosted.driver.warm_up()

    async def close(self, hosted: ServedVersion) -> None:
        await hosted.use.ended()
        await hosted.driver.aclose()
        self.closed.append(hosted)


def multiply_by(version: int) -> Callable[[Tensors], Tensors]:
    def run(inputs: Tensors) -> Tensors:
        return {"output": inputs["input"] * version}

    return run


@dataclass
class Traffic:
    """Asks at a steady pace, and compares each answer with the version that signs it."""

    edge: Edge
    answers: Counter[int] = field(default_factory=Counter)
    faults: list[bytes] = field(default_factory=list)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as callers:
            number = 0
            while True:
                number += 1
                callers.create_task(self._ask(rows=20 if number % 3 == 0 else 1))
                await asyncio.sleep(PAUSE_S)

    async def _ask(self, *, rows: int) -> None:
        body = orjson.dumps({"instances": [[1, 1]] * rows})
        now_ns = LoopClock().now_ns()
        exchange = FakeExchange("POST", "/v1/models/risk:predict", body, began_at_ns=now_ns)
        reply = await self.edge.endpoint.answer(exchange)
        told = orjson.loads(reply.body)
        version = int(told.get("model_version", 0))
        if reply.status != 200 or told["predictions"] != [[version, version]] * rows:
            self.faults.append(reply.body)
        self.answers[version] += 1


@pytest.mark.field_fault("S-47", "S-51", "P-03")
async def test_no_switch_costs_an_answer_and_every_answer_has_one_version(tmp_path: Path) -> None:
    clock = LoopClock()
    store = Store(onnx_models.echo(tmp_path / "echo.onnx"))
    edge = build_edge(clock=clock, draw=lambda: 0.5, id_prefix="test")
    traffic = Traffic(edge)
    async with asyncio.TaskGroup() as tasks:
        host = ModelHost(
            Lifecycle([ModelRef.parse("risk")]),
            source=store,
            shelf=CatalogueShelf(edge.catalogue, edge.metrics),
            clock=clock,
            tasks=tasks,
        )
        try:
            await host.start()
            edge.catalogue.readiness.state = State.READY
            every_ns = Nanoseconds(NS_PER_SECOND // 10)
            following = tasks.create_task(follow_aliases(host, every_ns=every_ns, draw=lambda: 0.5))
            asking = tasks.create_task(traffic.run())
            for number in range(SWITCHES):
                store.move(CORRUPT)
                await asyncio.sleep(0.4)
                store.move(2 - number % 2)
                await asyncio.sleep(0.8)
                assert len(edge.catalogue.versions) == 1
            asking.cancel()
            following.cancel()
        finally:
            await host.aclose()
    assert traffic.faults == []
    assert min(traffic.answers[1], traffic.answers[2]) > SWITCHES
    assert len(store.closed) == SWITCHES + 1
    for served in store.closed:
        statistics = served.driver.statistics()
        assert statistics.unaccounted == 0
        assert statistics.arrived == statistics.answered + statistics.cancelled
