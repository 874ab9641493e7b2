"""What callers get of versions that come, fail and go, in this process and on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.api.served import Offer, ServedVersion

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def serving(folder: Path, *, took_s: float = 0.0) -> AsyncIterator[Edge]:
    """Serve ``echo`` in the versions 1 and 2, which is ``stable``."""
    file = onnx_models.echo(folder / "echo.onnx")
    models = [edges.load(file, version=number) for number in (1, 2)]
    edge = edges.serve(
        models,
        clock=LoopClock(),
        backend=lambda model: FakeBackend(model=model.run, took_s=took_s),
        slo_ms=10_000,
    )
    versions = edge.catalogue.versions
    yield edge
    for served in versions:
        await served.driver.aclose()


def version(edge: Edge, number: int) -> ServedVersion:
    return edge.catalogue.find("echo", str(number))


async def get(edge: Edge, path: str) -> Reply:
    return await edge.endpoint.answer(FakeExchange("GET", path, b"", began_at_ns=0))


async def ask(edge: Edge, path: str = "/v1/models/echo:predict", rows: int = 1) -> Reply:
    body = orjson.dumps({"instances": [[1, 2]] * rows})
    exchange = FakeExchange("POST", path, body, began_at_ns=LoopClock().now_ns())
    return await edge.endpoint.answer(exchange)


async def test_a_version_that_comes_is_not_ready_and_the_server_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as edge:
        both = {number: version(edge, number) for number in (1, 2)}
        offer = Offer(
            versions=both, aliases={"stable": 2}, preferred=2, coming=frozenset({3}), failed={}
        )
        edge.catalogue.show("echo", offer)
        coming = await get(edge, "/v2/models/echo/versions/3/ready")
        assert coming.status == 503
        said = orjson.loads(coming.body)
        assert (said["code"], said["name"], said["ready"]) == ("not_ready", "echo", False)
        assert "retry-after" in dict(coming.headers)
        asked = await ask(edge, "/v1/models/echo/versions/3:predict")
        assert (asked.status, orjson.loads(asked.body)["code"]) == (503, "not_ready")
        assert (await get(edge, "/v2/health/ready")).status == 200
        assert (await get(edge, "/v2/models/echo/ready")).status == 200
        assert (await get(edge, "/v2/models/echo/versions/4/ready")).status == 404


async def test_a_model_that_comes_for_the_first_time_is_not_ready_rather_than_unknown(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as edge:
        edge.catalogue.show("new", Offer(coming=frozenset({1})))
        for path in ("/v2/models/new/ready", "/v2/models/new"):
            assert (await get(edge, path)).status == 503
        assert (await ask(edge, "/v1/models/new:predict")).status == 503
        assert orjson.loads((await get(edge, "/v1/models")).body)["models"] == ["echo"]
        edge.catalogue.show("new", Offer())
        assert (await get(edge, "/v2/models/new/ready")).status == 404


async def test_what_failed_stands_in_the_metadata_by_its_code(tmp_path: Path) -> None:
    async with serving(tmp_path) as edge:
        both = {number: version(edge, number) for number in (1, 2)}
        assert b"tidegate_failed" not in (await get(edge, "/v2/models/echo")).body
        offer = Offer(
            versions=both,
            aliases={"stable": 2},
            preferred=2,
            coming=frozenset({5}),
            failed={4: "memory_limit", 3: "digest_mismatch"},
        )
        edge.catalogue.show("echo", offer)
        parameters = orjson.loads((await get(edge, "/v2/models/echo")).body)["parameters"]
        assert parameters["tidegate_failed_versions"] == "3 (digest_mismatch), 4 (memory_limit)"
        assert parameters["tidegate_loading_versions"] == "5"


@pytest.mark.field_fault("S-47")
async def test_a_request_ends_on_the_version_that_it_found_also_when_it_runs_in_pieces(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, took_s=1.0) as edge, asyncio.TaskGroup() as callers:
        old, new = version(edge, 1), version(edge, 2)
        edge.catalogue.show("echo", Offer(versions={1: old}, aliases={"stable": 1}, preferred=1))
        asked = callers.create_task(ask(edge, rows=100))
        await asyncio.sleep(0.5)
        edge.catalogue.show("echo", Offer(versions={2: new}, aliases={"stable": 2}, preferred=2))
        assert old.use.bound == 1
        later = await ask(edge)
        assert orjson.loads(later.body)["model_version"] == "2"
        await old.use.ended()
        reply = orjson.loads((await asked).body)
        assert (reply["model_version"], len(reply["predictions"])) == ("1", 100)
        assert old.driver.statistics().answered == 1
        assert sum(old.driver.statistics().batches_by_rows.values()) > 1


async def test_an_upload_keeps_its_version_until_it_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as edge, asyncio.TaskGroup() as callers:
        old, new = version(edge, 1), version(edge, 2)
        edge.catalogue.show("echo", Offer(versions={1: old}, preferred=1))
        now_ns = LoopClock().now_ns()
        exchange = FakeExchange.uploading("/v1/models/echo:predict", began_at_ns=now_ns)
        asked = callers.create_task(edge.endpoint.answer(exchange))
        await asyncio.sleep(1)
        edge.catalogue.show("echo", Offer(versions={2: new}, preferred=2))
        gone = callers.create_task(old.use.ended())
        await asyncio.sleep(30)
        assert not gone.done()
        exchange.body.set_result(b'{"instances": [[1, 2]]}')
        assert orjson.loads((await asked).body)["model_version"] == "1"
        await gone
        assert old.use.last_at_ns == exchange.began_at_ns


async def test_refused_and_cancelled_requests_let_go_of_their_version(tmp_path: Path) -> None:
    async with serving(tmp_path, took_s=5.0) as edge:
        found = version(edge, 2)
        refused = await edge.endpoint.answer(
            FakeExchange("POST", "/v1/models/echo:predict", b"{", began_at_ns=0)
        )
        assert refused.status == 400
        assert found.use.bound == 0
        asked = asyncio.get_running_loop().create_task(ask(edge))
        await asyncio.sleep(1)
        assert found.use.bound == 1
        asked.cancel()
        await asyncio.wait({asked})
        assert found.use.bound == 0
