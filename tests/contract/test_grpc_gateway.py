"""``tidegate serve`` with gRPC: its start, its keys, its TLS and its end."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from tests.fixtures.certificates import Certificates, make_certificates
from tests.fixtures.gateways import SLOW_CONFIG, Gateway, command, free_port, running_gateway
from tests.fixtures.grpc_calls import infer_request, output_arrays
from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate_realtime.api.grpc.service import SERVICE

ECHO = infer_request("echo", {"input": ("FP32", np.array([[1, 2, 3]], np.float32))})


@contextmanager
def with_grpc(
    store: Path, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[Gateway, str]]:
    """Start a gateway, and say what a channel connects to."""
    port = free_port()
    given = ("--grpc-port", str(port), *arguments)
    with running_gateway(store, *given, environment=environment) as gateway:
        yield gateway, f"127.0.0.1:{port}"
        assert "Traceback" not in gateway.log.read_text()


def call(channel: grpc.Channel, method: str, request: Any, **metadata: str) -> Any:  # noqa: ANN401 - a message of any kind
    reply = getattr(v2, f"{method}Response")
    multi: Any = channel.unary_unary(
        f"/{SERVICE}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=reply.FromString,
    )
    return multi(request, timeout=60, metadata=tuple(metadata.items()))


def status(channel: grpc.Channel, method: str, request: object, **metadata: str) -> str:
    try:
        call(channel, method, request, **metadata)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code.name
    return "OK"


@pytest.mark.field_fault("P-30")
def test_grpc_listens_on_loopback_alone_unless_told_otherwise(http_store: Path) -> None:
    with with_grpc(http_store, "--model", "echo") as (_, target):
        port = int(target.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):  # "all addresses" would answer here
            socket.create_connection(("127.0.0.2", port), timeout=10)


def test_a_gateway_says_where_grpc_is_and_answers_it_beside_http(http_store: Path) -> None:
    with with_grpc(http_store, "--model", "echo") as (gateway, target):
        assert f"callers    {gateway.url}  gRPC {target}" in gateway.announcement
        with grpc.insecure_channel(target) as channel:
            answer = call(channel, "ModelInfer", ECHO)
        assert output_arrays(answer)["output"].tolist() == [[1, 2, 3]]
        assert httpx.get(f"{gateway.url}/v2/health/ready").status_code == 200
        assert gateway.metric("tidegate_requests_total", model="echo", outcome="answered") == 1
        assert gateway.terminate() == 0


@contextmanager
def stopped_in_a_call(
    store: Path, folder: Path, *, turns: int, environment: dict[str, str] | None = None
) -> Iterator[tuple[Gateway, grpc.Channel, "Future[str]"]]:
    """Ask a gateway for something long, and stop it; yield how the call will have ended."""
    config = folder / "tidegate.toml"
    config.write_text(SLOW_CONFIG)
    slow = infer_request("slow", {"input": ("FP32", np.array([[turns]], np.float32))})
    arguments = ("--model", "slow", "--config", str(config))
    with (
        with_grpc(store, *arguments, environment=environment) as (gateway, target),
        grpc.insecure_channel(target) as channel,
        ThreadPoolExecutor(max_workers=1) as caller,
    ):
        end = caller.submit(status, channel, "ModelInfer", slow)
        gateway.wait_for(1, "tidegate_batches_total", model="slow")
        gateway.process.send_signal(signal.SIGTERM)
        yield gateway, channel, end


@pytest.mark.field_fault("S-53")
def test_a_stop_answers_the_calls_that_were_accepted(http_store: Path, tmp_path: Path) -> None:
    with stopped_in_a_call(http_store, tmp_path, turns=600) as (gateway, channel, end):
        assert end.result() == "OK"
        assert gateway.process.wait(timeout=30) == 0
        assert status(channel, "ServerLive", v2.ServerLiveRequest()) == "UNAVAILABLE"
        assert '"answered": 1' in gateway.log.read_text()


def test_a_stop_is_not_held_up_for_ever_by_a_call(http_store: Path, tmp_path: Path) -> None:
    limit = {"TIDEGATE_SERVE__DRAIN_LIMIT_MS": "300"}
    stopped = stopped_in_a_call(http_store, tmp_path, turns=2_000, environment=limit)
    with stopped as (gateway, _, end):
        assert end.result() != "OK"
        gateway.process.wait(timeout=30)


def test_a_taken_port_is_refused_before_anything_is_loaded(http_store: Path) -> None:
    with with_grpc(http_store, "--model", "echo") as (_, target):
        port = target.rpartition(":")[2]
        arguments = ("--model", "nothing-of-this-name", "--grpc-port", port)
        ended = subprocess.run(
            command(http_store, free_port(), free_port(), *arguments),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ended.returncode == 2
        assert f"error: port {port} is taken by another process" in ended.stderr
        assert "--grpc-port" in ended.stderr


WITHOUT_GRPC = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc" or name.startswith("google"):
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
from tidegate.cli import main
sys.exit(main())
"""


def run_without_grpc(store: Path, grpc_port: int) -> "subprocess.Popen[str]":
    given = command(store, free_port(), free_port(), "--model", "echo")
    given += ["--grpc-port", str(grpc_port)]
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_GRPC, *given[3:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_without_the_library_the_start_says_what_to_install(http_store: Path) -> None:
    with run_without_grpc(http_store, free_port()) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "pip install 'tidegate[realtime]'" in told
    assert "--grpc-port 0" in told


def test_without_the_library_http_is_served_alone_if_that_is_asked_for(http_store: Path) -> None:
    with run_without_grpc(http_store, 0) as process:
        assert process.stdout is not None
        assert any(line.startswith("Ctrl-C") for line in process.stdout)
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.mark.field_fault("P-19")
def test_a_call_asks_for_the_same_keys_as_its_route_over_http(
    http_store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    making = [sys.executable, "-m", "tidegate", "keys", "create", "--file", str(file)]
    wanted = [*making, "--tenant", "t", "--scope", "predict", "--model", "echo", "--json"]
    token = json.loads(subprocess.run(wanted, check=True, capture_output=True).stdout)["token"]
    ours, wrong = f"Bearer {token}", "Bearer tg_" + "0" * 12 + "_" + "a" * 43
    models = ("--model", "echo", "--model", "ids", "--keys-file", str(file))
    with with_grpc(http_store, *models) as (gateway, target), grpc.insecure_channel(target) as at:
        requests = {
            "ModelInfer": ECHO,
            "ModelReady": v2.ModelReadyRequest(name="echo"),
            "ModelMetadata": v2.ModelMetadataRequest(name="echo"),
            "ModelConfig": v2.ModelConfigRequest(name="echo"),
            "ModelStatistics": v2.ModelStatisticsRequest(name="echo"),
        }
        for method, request in requests.items():
            assert status(at, method, request) == "UNAUTHENTICATED"
            assert status(at, method, request, authorization=wrong) == "UNAUTHENTICATED"
            assert status(at, method, request, authorization=ours) == "OK"
        forbidden = v2.ModelReadyRequest(name="ids")
        assert status(at, "ModelReady", forbidden, authorization=ours) == "PERMISSION_DENIED"
        for method in ("ServerLive", "ServerReady", "ServerMetadata"):
            assert status(at, method, getattr(v2, f"{method}Request")()) == "OK"
        assert token.split("_", 2)[2] not in gateway.log.read_text()
        unauthenticated = gateway.metric("tidegate_guard_refusals_total", guard="unauthenticated")
        assert unauthenticated == 2 * len(requests)  # whatever they would have been


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_grpc_speaks_tls_where_http_does_and_knows_its_callers(
    http_store: Path, certificates: Certificates
) -> None:
    environment = {
        "TIDEGATE_SERVE__TLS_CERT": str(certificates.server),
        "TIDEGATE_SERVE__TLS_KEY": str(certificates.server_key),
        "TIDEGATE_SERVE__TLS_CLIENT_CA": str(certificates.ca),
    }
    authority = certificates.ca.read_bytes()
    known = grpc.ssl_channel_credentials(
        authority, certificates.client_key.read_bytes(), certificates.client.read_bytes()
    )
    stranger = grpc.ssl_channel_credentials(
        authority, certificates.stranger_key.read_bytes(), certificates.stranger.read_bytes()
    )
    nobody = grpc.ssl_channel_credentials(authority)
    with with_grpc(http_store, "--model", "echo", environment=environment) as (_, target):
        with grpc.secure_channel(target, known) as channel:
            assert status(channel, "ModelInfer", ECHO) == "OK"
        for refused in (stranger, nobody):
            with grpc.secure_channel(target, refused) as channel:
                assert status(channel, "ModelInfer", ECHO) == "UNAVAILABLE"
        with grpc.insecure_channel(target) as channel:
            assert status(channel, "ModelInfer", ECHO) == "UNAVAILABLE"
