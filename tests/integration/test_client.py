"""The client against a gateway as its users run it, under both servers."""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.certificates import make_certificates
from tests.fixtures.gateways import Gateway, publish_models, running_gateway
from tidegate.client import (
    AsyncClient,
    BadRequestError,
    Client,
    ConnectionFailedError,
    DeadlineExpiredError,
    NotFoundError,
    RejectedError,
    UnauthorizedError,
)

BATCHES, ENDINGS = "tidegate_batches_total", "tidegate_requests_total"
ROW = {"id": 1, "a": 0.5}
CONFIG = "".join(
    f"[models.{name}]\nslo_ms = 20000\n" for name in ("echo", "ids", "lookup", "table")
)
CONFIG += "[models.slow]\nslo_ms = 20000\nbest_effort = true\n"


@pytest.fixture(scope="module", params=["granian", "uvicorn"])
def gateway(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("client")
    store, config = publish_models(folder), folder / "tidegate.toml"
    config.write_text(CONFIG)
    with running_gateway(store, "--server", request.param, "--config", str(config)) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Client]:
    with Client(gateway.url, timeout_ms=60_000) as client:
        yield client


def test_rows_in_every_form_get_the_same_answer(client: Client) -> None:
    by_columns = client.predict("table", columns={"id": [1, 2], "a": np.array([0.5, 0.25])})
    by_rows = client.predict("table", instances=[ROW, {"id": 2, "a": 0.25}], version=1)
    rows = np.array([[1, 0.5, 0.5], [2, 0.25, 0.5]], np.float32)
    by_arrays = client.predict("table", arrays={"input": rows}, version="stable")
    assert by_columns.predictions == by_rows.predictions == by_arrays.predictions == rows.tolist()
    np.testing.assert_array_equal(by_arrays.outputs["output"], rows)
    assert by_columns.model_digest == by_rows.model_digest == by_arrays.model_digest
    assert len({by_columns.request_id, by_rows.request_id, by_arrays.request_id}) == 3


def test_arrays_of_several_inputs_are_exact(client: Client) -> None:
    ids = np.array([2**63 - 1, -(2**63)], np.int64)
    x = np.array([[np.inf, 1e-45], [-0.0, 3.4e38]], np.float32)
    answer = client.predict("ids", arrays={"x": x, "ids": ids}, request_id="mine", priority=3)
    assert answer.outputs["own_ids"].tolist() == ids.tolist()
    assert answer.outputs["y"].tobytes() == x.tobytes()
    assert (answer.model_name, answer.model_version, answer.request_id) == ("ids", 1, "mine")
    assert answer.model_digest.startswith("sha256:")
    assert answer.served_by == "model"


def test_a_gateway_describes_what_it_serves(client: Client) -> None:
    assert client.ready()
    assert client.ready("echo")
    assert set(client.models()) >= {"echo", "table"}
    metadata = client.metadata("ids", version=1)
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in metadata.inputs] == [
        ("x", "FP32", (-1, 2)),
        ("ids", "INT64", (-1,)),
    ]
    assert metadata.parameters["slo_ms"] == 20_000


def test_refusals_carry_what_the_gateway_said(client: Client) -> None:
    with pytest.raises(NotFoundError, match="The model 'nothing' is not served here") as missing:
        client.predict("nothing", instances=[1])
    assert (missing.value.code, missing.value.status) == ("model_not_found", 404)
    with pytest.raises(NotFoundError) as version:
        client.predict("echo", instances=[[1, 2, 3]], version=9)
    assert (version.value.code, version.value.details) == ("version_not_served", {"served": [1]})
    with pytest.raises(BadRequestError) as mismatch:
        client.predict("table", instances=[{"id": "x"}], request_id="mine")
    assert (mismatch.value.code, mismatch.value.status) == ("signature_mismatch", 422)
    assert mismatch.value.request_id == "mine"
    with pytest.raises(BadRequestError, match="priority"):
        client.predict("echo", instances=[[1, 2, 3]], priority=-1)


def test_a_call_ends_by_its_deadline(client: Client) -> None:
    with pytest.raises((DeadlineExpiredError, RejectedError)) as raised:
        client.predict("slow", instances=[[100.0]], deadline_ms=50)
    assert raised.value.tries <= 3


def test_threads_share_a_client_and_its_connections(client: Client) -> None:
    def ask(number: int) -> float:
        value: float = client.predict("echo", instances=[[number, 0, 0]]).predictions[0][0]
        return value

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(200))) == list(range(200))


async def test_tasks_share_a_client_and_its_connections(gateway: Gateway) -> None:
    async with AsyncClient(gateway.url, connections=4, timeout_ms=60_000) as client:
        assert await client.ready()
        assert set(await client.models()) >= {"echo", "table"}
        assert (await client.metadata("echo")).name == "echo"
        calls = [client.predict("echo", instances=[[number, 0, 0]]) for number in range(50)]
        answers = await asyncio.gather(*calls)
    assert [answer.predictions[0][0] for answer in answers] == list(range(50))


async def test_a_cancelled_call_leaves_the_gateways_queue(gateway: Gateway) -> None:
    async with AsyncClient(gateway.url, timeout_ms=60_000) as client, asyncio.TaskGroup() as group:
        batches = await asyncio.to_thread(gateway.metric, BATCHES, model="slow")
        ended = {"model": "slow", "outcome": "cancelled"}
        before = await asyncio.to_thread(gateway.metric, ENDINGS, **ended)
        running = group.create_task(client.predict("slow", instances=[[1_500.0]]))
        await asyncio.to_thread(gateway.wait_for, batches + 1, BATCHES, model="slow")
        waiting = group.create_task(client.predict("slow", instances=[[1.0]]))
        await asyncio.to_thread(gateway.wait_for, 1, "tidegate_queue_rows", model="slow")
        waiting.cancel()
        await asyncio.to_thread(gateway.wait_for, before + 1, ENDINGS, **ended)
    assert running.result().predictions == [[1_500.0]]


def test_a_gateway_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with running_gateway(publish_models(tmp_path), "--model", "echo") as gateway:
        client = Client(gateway.url, timeout_ms=60_000)
        assert client.ready()
        assert gateway.terminate() == 0
    with client, pytest.raises(ConnectionFailedError, match="Is the gateway running") as raised:
        client.predict("echo", instances=[[1, 2, 3]])
    assert raised.value.tries == 3


def key_for(model: str, file: Path) -> tuple[str, Path]:
    command = [sys.executable, "-m", "tidegate", "keys", "create", "--file", str(file), "--json"]
    command += ["--scope", "predict", "--tenant", "t", "--model", model]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return json.loads(made.stdout)["token"], file


def test_a_gateway_with_keys_and_tls_answers_whom_it_knows_and_is_known_by(
    tmp_path: Path,
) -> None:
    certificates = make_certificates(tmp_path)
    tls = {
        "TIDEGATE_SERVE__TLS_CERT": str(certificates.server),
        "TIDEGATE_SERVE__TLS_KEY": str(certificates.server_key),
    }
    token, file = key_for("echo", tmp_path / "keys.json")
    arguments = ("--model", "echo", "--model", "ids", "--keys-file", str(file))
    trusted = ssl.create_default_context(cafile=certificates.ca)
    with running_gateway(publish_models(tmp_path), *arguments, environment=tls) as gateway:
        url = gateway.url.replace("http://", "https://")
        with Client(url, key=token, ssl_context=trusted, timeout_ms=60_000) as client:
            assert client.predict("echo", instances=[[1, 2, 3]]).predictions == [[1, 2, 3]]
            with pytest.raises(UnauthorizedError) as other:
                client.predict("ids", instances=[1])
            assert (other.value.status, other.value.code) == (403, "forbidden")
        with Client(url, ssl_context=trusted) as nobody:
            with pytest.raises(UnauthorizedError, match="key=") as unknown:
                nobody.predict("echo", instances=[[1, 2, 3]])
            assert (unknown.value.status, unknown.value.tries) == (401, 1)
        with Client(url, key=token) as distrusting:
            with pytest.raises(ConnectionFailedError, match="certificate verify failed") as bad:
                distrusting.models()
            assert bad.value.tries == 1
