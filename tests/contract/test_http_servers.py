"""What every server must do with sound requests; judged by clients that nobody here wrote."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.fixtures.gateways import MODELS, SERVERS, Gateway, running_gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def infer_body(rows: list[list[float]], **outside: object) -> dict[str, object]:
    tensor = {"name": "input", "shape": [len(rows), 3], "datatype": "FP32", "data": rows}
    return {"inputs": [tensor], **outside}


@pytest.mark.field_fault("P-02")
def test_health_says_live_and_ready_on_both_routes(client: httpx.Client) -> None:
    for path in ("/v2/health/live", "/v2/health/ready"):
        reply = client.get(path)
        assert (reply.status_code, reply.json()) == (200, {"live": True, "ready": True})
        assert reply.headers["content-type"] == "application/json"


def test_the_server_and_its_models_describe_themselves(client: httpx.Client) -> None:
    server = client.get("/v2").json()
    assert server["name"] == "tidegate"
    assert client.get("/v1/models").json() == {"models": sorted(MODELS)}
    assert client.get("/v1/models/echo").json() == {"name": "echo", "ready": True}
    assert client.get("/v2/models/echo/versions/1/ready").json() == {"name": "echo", "ready": True}
    metadata = client.get("/v2/models/echo").json()
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 3]}]
    assert metadata["versions"] == ["1"]
    assert metadata == client.get("/v2/models/echo/versions/stable").json()


@pytest.mark.field_fault("S-16")
def test_the_settings_in_force_are_in_the_metadata_and_no_path_of_the_server(
    client: httpx.Client, http_store: Path
) -> None:
    reply = client.get("/v2/models/echo")
    assert str(http_store.parent) not in reply.text
    parameters = reply.json()["parameters"]
    assert parameters["slo_ms"] == 20_000
    assert parameters["percentile"] == 0.99
    assert parameters["objective_is_default"] is False
    assert (parameters["best_effort"], parameters["backend"]) == (False, "onnxruntime")
    assert (parameters["max_deadline_ms"], parameters["queue_limit_rows"]) == (60_000, 4096)
    bounds = {name: parameters[f"cap_{name}_rows"] for name in ("slo", "knee", "memory")}
    assert parameters["cap_rows"] >= min(bounds.values()) > 1  # who just missed it bears less
    assert parameters["cap_limited_by"] in {*bounds, "measured"}
    assert 1 <= parameters["need_rows"] <= parameters["cap_rows"]


def assert_tagged(reply: httpx.Response, name: str) -> None:
    """The tag stands in the body, in its parameters or its v1 fields, and in the headers."""
    content = reply.json()
    digest = reply.headers["x-tidegate-digest"]
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    assert (content["model_name"], content["model_version"]) == (name, "1")
    assert reply.headers["x-tidegate-model"] == name
    assert reply.headers["x-tidegate-version"] == "1"
    assert reply.headers["x-tidegate-served-by"] == "model"
    if "outputs" in content:
        assert content["parameters"] == {
            "tidegate_digest": digest,
            "tidegate_variant": "default",
            "tidegate_served_by": "model",
        }
        assert all("parameters" not in output for output in content["outputs"])
    else:
        assert (content["model_digest"], content["served_by"]) == (digest, "model")
        assert content["request_id"] == reply.headers["x-request-id"]


@pytest.mark.field_fault("P-03", "P-04")
@pytest.mark.parametrize("at", ["", "/versions/1", "/versions/stable"])
def test_every_prediction_carries_its_tag(client: httpx.Client, at: str) -> None:
    reply = client.post(f"/v2/models/echo{at}/infer", json=infer_body([[1, 2, 3]], id="mine"))
    assert_tagged(reply, "echo")
    assert reply.json()["id"] == "mine"
    assert reply.headers["x-request-id"] == "mine"
    assert_tagged(
        client.post(f"/v1/models/echo{at}:predict", json={"instances": [[1, 2, 3]]}), "echo"
    )


@pytest.mark.field_fault("P-05")
@pytest.mark.parametrize("kind", [None, "application/octet-stream", "text/plain", "x/y; z=1"])
@pytest.mark.parametrize("path", ["/v2/models/echo/infer", "/v1/models/echo:predict"])
def test_the_content_type_is_not_looked_at(
    client: httpx.Client, kind: str | None, path: str
) -> None:
    rows = [[1.0, 2.0, 3.0]]
    body = infer_body(rows) if "infer" in path else {"instances": rows}
    request = client.build_request("POST", path, json=body)
    del request.headers["content-type"]
    if kind:
        request.headers["content-type"] = kind
    assert client.send(request).status_code == 200


@pytest.mark.field_fault("P-06")
def test_what_the_cpp_client_adds_is_accepted(client: httpx.Client) -> None:
    request = client.build_request(
        "POST", "/v2/models/echo/infer", json=infer_body([[1, 2, 3]], id="")
    )
    request.headers["inference-header-content-length"] = str(len(request.content))
    request.headers["expect"] = ""
    reply = client.send(request)
    assert (reply.status_code, reply.json()["id"]) == (200, "")


def test_requested_outputs_are_honoured_in_the_order_of_asking(client: httpx.Client) -> None:
    inputs = [
        {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]},
        {"name": "ids", "shape": [2], "datatype": "INT64", "data": [2**63 - 1, 2**53 + 1]},
    ]
    body = {"inputs": inputs, "outputs": [{"name": "own_ids"}, {"name": "y"}]}
    outputs = client.post("/v2/models/ids/infer", json=body).json()["outputs"]
    assert outputs == [
        {"name": "own_ids", "datatype": "INT64", "shape": [2], "data": [2**63 - 1, 2**53 + 1]},
        {"name": "y", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]},
    ]
    only = client.post("/v2/models/ids/infer", json=body | {"outputs": [{"name": "y"}]}).json()
    assert [output["name"] for output in only["outputs"]] == ["y"]


def test_head_is_get_without_a_body(client: httpx.Client) -> None:
    reply = client.head("/v2/health/ready")
    assert (reply.status_code, reply.content) == (200, b"")


def test_a_request_id_comes_back_also_with_a_refusal(client: httpx.Client) -> None:
    named = {"x-request-id": "caller:42"}
    for path in ("/v2/models/echo/infer", "/v2/models/none/infer", "/nowhere"):
        reply = client.post(path, content=b"{", headers=named)
        assert reply.status_code in {400, 404}
        assert reply.headers["x-request-id"] == reply.json()["request_id"] == "caller:42"
    made = client.post("/nowhere", headers={"x-request-id": "no good"})
    assert made.headers["x-request-id"] != "no good"


def test_a_connection_is_kept_through_answers_and_refusals(gateway: Gateway) -> None:
    with httpx.Client(base_url=gateway.url) as client:
        before = connection_of(client.get("/v2"))
        statuses = [
            client.post("/v2/models/echo/infer", json=infer_body([[1, 2, 3]])).status_code,
            client.post("/v2/models/echo/infer", content=b"{").status_code,
            client.post("/v2/models/none/infer", json={}).status_code,
            client.put("/v2", content=b"x" * 1000).status_code,
            client.get("/v2/health/live").status_code,
        ]
        assert statuses == [200, 400, 404, 405, 200]
        assert connection_of(client.get("/v2")) == before


def connection_of(reply: httpx.Response) -> Any:  # noqa: ANN401 - httpx's own kind of address
    return reply.extensions["network_stream"].get_extra_info("client_addr")


@pytest.mark.field_fault("S-03", "S-02")
async def test_200_concurrent_clients_get_their_own_rows_back(gateway: Gateway) -> None:
    """Rows with ids, mixed sizes below and above the cap, as tensors and as named columns."""
    random = Random(200)
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, limits=limits) as client:

        async def call(caller: int) -> None:
            for turn in range(3):
                first = caller * 1_000 + turn * 100
                rows = [
                    [float(first + row), float(caller), 0.5] for row in range(random.randint(1, 40))
                ]
                assert await asked(client, rows, as_tensors=(caller + turn) % 2 == 0) == rows

        async with asyncio.TaskGroup() as callers:
            for caller in range(200):
                callers.create_task(call(caller))
    assert gateway.metric("tidegate_in_flight_requests") == 0


async def asked(
    client: httpx.AsyncClient, rows: list[list[float]], *, as_tensors: bool
) -> list[list[float]]:
    """Return what came back for these rows."""
    if as_tensors:
        reply = await client.post("/v2/models/echo/infer", json=infer_body(rows))
        flat = reply.json()["outputs"][0]["data"]
        return [flat[start : start + 3] for start in range(0, len(flat), 3)]
    instances = [{"a": a, "id": key, "surprise": "ignored"} for key, a, _ in rows]  # b by default
    reply = await client.post("/v1/models/table:predict", json={"instances": instances})
    predictions: list[list[float]] = reply.json()["predictions"]
    return predictions


@pytest.mark.field_fault("S-16")
@pytest.mark.parametrize("server", SERVERS)
def test_batches_hold_no_more_than_the_cap_and_their_rows_are_counted(
    http_store: Path, tmp_path: Path, server: str
) -> None:
    def counted() -> tuple[float, float, float, float]:
        return (
            gateway.metric("tidegate_batch_rows_sum", model="echo"),
            gateway.metric("tidegate_batches_total", model="echo"),
            gateway.metric("tidegate_batch_rows_bucket", model="echo", le="32"),
            gateway.metric("tidegate_execution_seconds_count", model="echo"),
        )

    config = tmp_path / "tidegate.toml"
    config.write_text("[models.echo]\nslo_ms = 20000\nmemory_rows = 32\n")
    arguments = ("--server", server, "--model", "echo", "--config", str(config))
    with running_gateway(http_store, *arguments) as gateway:
        reply = httpx.post(
            f"{gateway.url}/v2/models/echo/infer", json=infer_body([[1, 2, 3]] * 100)
        )
        assert reply.status_code == 200
        assert counted() == (100, 4, 4, 4)
        parameters = httpx.get(f"{gateway.url}/v2/models/echo").json()["parameters"]
        assert (parameters["cap_rows"], parameters["cap_memory_rows"]) == (32, 32)
        assert gateway.metric("tidegate_cap_rows", limit="effective") == 32
