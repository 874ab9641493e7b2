"""The operators' listener, and the whole edge on a loop that must not block."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.host_counts import counts_of
from tests.fixtures import edges, onnx_models
from tests.project import ROOT
from tidegate.clock.system import SystemClock
from tidegate.inference.model import Model
from tidegate_realtime.api.admin.app import AdminParts, build_admin_app
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.api.asgi import AsgiApp
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.api.routing import METHODS, match_route
from tidegate_realtime.api.served import State
from tidegate_realtime.api.tracing import StageTimes
from tidegate_realtime.backends.onnx import OnnxBackend

PUBLIC = "http://127.0.0.1:8000"


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[tuple[Edge, httpx.AsyncClient, httpx.AsyncClient]]:
    """Yield the edge, a caller and an operator."""
    clock = SystemClock()
    backend = MeasuredBackend(OnnxBackend(model), clock)
    promised = edges.promise(slo_ms=20_000, budget_ms=50)
    edge = edges.serve([model], clock=clock, backend=lambda _: backend, promised=promised)
    driver = edge.catalogue.versions[0].driver
    collector = GatewayCollector(
        catalogue=edge.catalogue,
        metrics=edge.metrics,
        clock=clock,
        host=counts_of(model.tag.name),
    )
    observer = Observer(catalogue=edge.catalogue, metrics=edge.metrics, clock=clock)
    admin = build_admin_app(
        AdminParts(
            catalogue=edge.catalogue,
            lookups=edge.lookups,
            collector=collector,
            observer=observer,
            public_url=PUBLIC,
        )
    )
    public = httpx.ASGITransport(AsgiApp(edge.endpoint, edge.sweeper, clock))
    try:
        await driver.warm_up()
        backend.forget()
        async with (
            httpx.AsyncClient(transport=public, base_url=PUBLIC) as caller,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(admin), base_url="http://127.0.0.1:8002"
            ) as operator,
        ):
            yield edge, caller, operator
    finally:
        await driver.aclose()


async def test_the_documentation_needs_no_network(echo: Model) -> None:
    async with serving(echo) as (_, _, operator):
        page = await operator.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    links = re.findall(r"(?:src|href)=['\"]?([^'\" >]+)", page.text)
    assert sorted(set(links)) == ["/metrics", "/openapi.json"]
    assert "echo@1" in page.text
    assert "As <code>application/octet-stream</code>: The JSON of the other form" in page.text
    assert f"curl {PUBLIC}/v1/models/echo:predict" in page.text


async def test_the_documentation_says_which_versions_come_and_which_failed(echo: Model) -> None:
    async with serving(echo) as (edge, _, operator):
        now = edge.catalogue.offer("echo")
        edge.catalogue.show(
            "echo", replace(now, coming=frozenset({2}), failed={3: "digest_mismatch"})
        )
        page = (await operator.get("/docs")).text
    assert "echo@2 is being loaded." in page
    assert "echo@3 cannot be loaded (digest_mismatch)" in page


async def test_the_openapi_document_describes_every_public_route(echo: Model) -> None:
    async with serving(echo) as (_, _, operator):
        document = (await operator.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": PUBLIC}]
    served = set()
    for path, operations in document["paths"].items():
        route = match_route(path.replace("{model}", "echo").replace("{version}", "1"))
        assert route is not None, path
        assert {verb.upper() for verb in operations} <= set(METHODS[route.action])
        served.add(route.action)
    assert served == set(METHODS)
    wanted = set(re.findall(r"#/components/schemas/(\w+)", orjson.dumps(document).decode()))
    assert wanted == set(document["components"]["schemas"])


def documented() -> dict[str, str]:
    """Return type and labels of each metric of ``docs/metrics.md``, by name."""
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", text, flags=re.MULTILINE)
    return {name: f"{kind}: {labels.strip()}" for name, kind, labels in rows}


async def test_every_metric_is_documented_with_its_labels_and_no_other(echo: Model) -> None:
    async with serving(echo) as (edge, caller, operator):
        await caller.post("/v1/models/echo:predict", json={"instances": [[1, 2]]})
        edge.metrics.read("echo", "1", took_ns=1)  # as a model of texts does
        edge.metrics.stage_times["echo", "1"] = StageTimes()  # as with --trace-stages
        scraped = await operator.get("/metrics")
    found = {}
    for family in text_string_to_metric_families(scraped.text):
        labels = [name for name in family.samples[0].labels if name != "le"]
        suffix = "_total" if family.type == "counter" else ""
        found[family.name + suffix] = f"{family.type}: {', '.join(sorted(labels))}"
        assert family.documentation.endswith(".")
    assert found == documented()
    assert all(name.startswith("tidegate_") for name in found)


@pytest.mark.field_fault("S-54", "S-55", "S-57")
async def test_arrivals_are_endings_and_nothing_is_counted_twice(echo: Model) -> None:
    async with serving(echo) as (edge, caller, operator):
        for rows in (1, 40, 0):
            await caller.post("/v1/models/echo:predict", json={"instances": [[1, 2]] * rows})
        for number in range(50):  # names that callers make up are no labels
            await caller.post(f"/v1/models/made-up-{number}:predict", json={})
            await caller.post(f"/v2/models/echo/versions/{number + 2}/infer", json={})
        text = (await operator.get("/metrics")).text
        statistics = edge.catalogue.versions[0].driver.statistics()
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    by_name = {
        name: sum(s.value for s in samples if s.name == name) for name in {s.name for s in samples}
    }
    assert by_name["tidegate_arrivals_total"] == 103
    assert by_name["tidegate_arrivals_total"] == by_name["tidegate_requests_total"]
    assert by_name["tidegate_in_flight_requests"] == 0
    assert by_name["tidegate_batches_total"] == sum(statistics.batches_by_rows.values()) == 2
    assert by_name["tidegate_batch_rows_sum"] == 41
    assert by_name["tidegate_execution_seconds_count"] == 2
    assert by_name["tidegate_forecast_ratio_count"] == 2
    assert by_name["tidegate_slo_requests_total"] == by_name["tidegate_slo_good_total"] == 2
    busy_s = by_name["tidegate_executor_busy_seconds_total"]
    assert busy_s == pytest.approx(by_name["tidegate_execution_seconds_sum"])
    assert by_name["tidegate_request_duration_seconds_count"] == 2
    edges_s = {
        s.labels["le"] for s in samples if s.name == "tidegate_request_duration_seconds_bucket"
    }
    assert "20.0" in edges_s  # the objective
    assert {s.labels["model"] for s in samples if "model" in s.labels} == {"echo", "unknown"}
    assert len(samples) < 180


@pytest.mark.field_fault("P-23", "P-24", "P-36")
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil", "", "localhost:80:80", "[::2]"],
)
async def test_a_foreign_host_is_refused_whatever_is_asked(echo: Model, host: str) -> None:
    async with serving(echo) as (_, _, operator):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for path in ("/metrics", "/docs", "/openapi.json", "/v2/health/ready", "/x"):
                reply = await operator.request(method, path, headers={"host": host})
                assert (reply.status_code, reply.json()["code"]) == (400, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8002", "127.0.0.1:9999", "[::1]:8002"])
async def test_its_own_names_are_accepted(echo: Model, host: str) -> None:
    async with serving(echo) as (_, _, operator):
        assert (await operator.get("/metrics", headers={"host": host})).status_code == 200


async def test_what_the_framework_refuses_has_the_one_body(echo: Model) -> None:
    async with serving(echo) as (_, _, operator):
        missing = await operator.get("/nowhere")
        slash = await operator.get("/docs/")
        json = {"content-type": "application/json"}
        wrong = await operator.delete("/metrics", headers=json)
    assert [reply.status_code for reply in (missing, slash, wrong)] == [404, 404, 405]
    assert missing.json()["code"] == "route_not_found"
    assert (wrong.json()["code"], wrong.headers["allow"]) == ("method_not_allowed", "GET")
    for reply in (missing, wrong):
        assert reply.headers["content-type"] == "application/json"
        assert reply.json().keys() == {"error", "code", "request_id", "details"}


async def test_health_on_both_listeners_follows_the_state(echo: Model) -> None:
    async with serving(echo) as (edge, caller, operator):
        for state, status in ((State.STARTING, 503), (State.READY, 200), (State.DRAINING, 503)):
            edge.catalogue.readiness.state = state
            for client in (caller, operator):
                ready = await client.get("/v2/health/ready")
                assert (ready.status_code, ready.json()["live"]) == (status, True)
                assert (await client.get("/v2/health/live")).status_code == 200


@pytest.mark.field_fault("S-36")
def test_no_middleware_hides_that_a_caller_left() -> None:
    source = "".join(file.read_text() for file in (ROOT / "services").rglob("*.py"))
    assert "BaseHTTPMiddleware" not in source
