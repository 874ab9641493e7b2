"""Callers who leave, processes that stop, ports that are taken: under every server."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fixtures.gateways import (
    SERVERS,
    SLOW_CONFIG,
    Gateway,
    command,
    free_port,
    running_gateway,
)

SLOW = "/v1/models/slow:predict"
LONG = 800
"""Turns of the slow model that take some hundred milliseconds, on any machine."""

every_server = pytest.mark.parametrize("server", SERVERS)


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield pool


def ask(gateway: Gateway, turns: int) -> httpx.Response:
    return httpx.post(f"{gateway.url}{SLOW}", json={"instances": [[turns]]}, timeout=60)


def occupy(gateway: Gateway, callers: ThreadPoolExecutor, turns: int) -> Future[httpx.Response]:
    """Keep the model busy; returns once its batch runs."""
    batches = gateway.metric("tidegate_batches_total", model="slow")
    answer = callers.submit(ask, gateway, turns)
    gateway.wait_for(batches + 1, "tidegate_batches_total", model="slow")
    return answer


def request_bytes(turns: int) -> bytes:
    body = b'{"instances":[[%d]]}' % turns
    return b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (
        SLOW.encode(),
        len(body),
        body,
    )


def one_reply(connection: socket.socket) -> bytes:
    """Read one reply of a kept connection, however many pieces it comes in."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65_536)
    return answer


@pytest.mark.field_fault("S-26", "S-36")
@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
def test_the_queued_request_of_a_caller_who_left_is_never_executed(
    gateway: Gateway, callers: ThreadPoolExecutor, how: str
) -> None:
    labels = {"model": "slow", "outcome": "cancelled", "reason": "caller_left"}
    cancelled = gateway.metric("tidegate_requests_total", **labels)
    running = occupy(gateway, callers, LONG)
    batches = gateway.metric("tidegate_batches_total", model="slow")
    leaving = gateway.connect()
    leaving.sendall(request_bytes(1))
    gateway.wait_for(1, "tidegate_queue_rows", model="slow")
    if how == "reset":
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "half-close":
        leaving.shutdown(socket.SHUT_WR)
    else:
        leaving.close()
    gateway.wait_for(cancelled + 1, "tidegate_requests_total", **labels)
    assert not running.done()
    assert gateway.metric("tidegate_queue_rows", model="slow") == 0
    assert running.result().status_code == 200
    assert ask(gateway, 0).status_code == 200
    assert gateway.metric("tidegate_batches_total", model="slow") == batches + 1
    leaving.close()


@pytest.mark.field_fault("S-26")
def test_a_caller_who_leaves_on_a_kept_connection_is_noticed_too(
    gateway: Gateway, callers: ThreadPoolExecutor
) -> None:
    cancelled = gateway.metric("tidegate_requests_total", outcome="cancelled", model="slow")
    leaving = gateway.connect()
    for _ in range(3):
        leaving.sendall(request_bytes(0))
        assert b" 200 " in one_reply(leaving)
    running = occupy(gateway, callers, LONG)
    leaving.sendall(request_bytes(1))
    gateway.wait_for(1, "tidegate_queue_rows", model="slow")
    leaving.close()
    gateway.wait_for(cancelled + 1, "tidegate_requests_total", outcome="cancelled", model="slow")
    assert running.result().status_code == 200


@pytest.mark.field_fault("S-53")
@every_server
def test_a_stop_answers_what_was_accepted_and_takes_nothing_new(
    http_store: Path, callers: ThreadPoolExecutor, server: str, tmp_path: Path
) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text(SLOW_CONFIG)
    arguments = ("--server", server, "--model", "slow", "--config", str(config))
    with (
        running_gateway(http_store, *arguments) as gateway,
        gateway.connect() as idle,
        gateway.connect() as kept,
    ):
        idle.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b'"ready":true' in one_reply(idle)
        running = occupy(gateway, callers, LONG * 3)
        kept.sendall(request_bytes(0))
        gateway.wait_for(1, "tidegate_queue_rows", model="slow")
        gateway.process.send_signal(signal.SIGTERM)
        wait_until_refused(gateway)
        assert idle.recv(65_536) == b""  # nobody would answer what it might send
        ready = httpx.get(f"{gateway.admin_url}/v2/health/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, "draining")
        assert not running.done()
        assert running.result().status_code == 200
        assert b" 200 " in one_reply(kept)
        assert kept.recv(65_536) == b""
        assert gateway.process.wait(timeout=30) == 0
        closed, ended = logged(gateway, "model_closed"), logged(gateway, "requests_ended")
        assert (closed["arrived"], closed["answered"]) == (2, 2)
        assert (ended["arrived"], ended["answered"], ended["cut_off"]) == (2, 2, 0)


def logged(gateway: Gateway, event: str) -> dict[str, object]:
    """Return the fields of the only line with this event."""
    (line,) = [line for line in gateway.log.read_text().splitlines() if f'"{event}"' in line]
    fields: dict[str, object] = json.loads(line)
    return fields


def wait_until_refused(gateway: Gateway) -> None:
    while True:
        try:
            gateway.connect().close()
        except ConnectionError:  # refused, or reset while it was being closed
            return


@pytest.mark.field_fault("P-40")
@every_server
def test_a_stop_is_not_held_up_for_ever_by_who_stalls(http_store: Path, server: str) -> None:
    limit = {"TIDEGATE_SERVE__DRAIN_LIMIT_MS": "300"}
    arguments = ("--server", server, "--model", "echo")
    with (
        running_gateway(http_store, *arguments, environment=limit) as gateway,
        gateway.connect() as half,
        gateway.connect() as stalled,
    ):
        half.sendall(b"GET /v2 HT")
        stalled.sendall(
            b"POST /v1/models/echo:predict HTTP/1.1\r\nContent-Length: 9\r\nHost: a\r\n\r\n{"
        )
        gateway.wait_for(1, "tidegate_in_flight_requests", model="echo")
        assert gateway.terminate() == 0
        answer = stalled.recv(65_536)
        assert answer == b"" or b" 408 " in answer
        assert "drain_limit_reached" in gateway.log.read_text()
        assert "Traceback" not in gateway.log.read_text()


@every_server
def test_a_second_signal_ends_it_at_once(
    http_store: Path, callers: ThreadPoolExecutor, server: str, tmp_path: Path
) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text(SLOW_CONFIG)
    arguments = ("--server", server, "--model", "slow", "--config", str(config))
    with running_gateway(http_store, *arguments) as gateway:
        running = occupy(gateway, callers, 2_000)
        gateway.process.send_signal(signal.SIGINT)
        wait_until_refused(gateway)
        gateway.process.send_signal(signal.SIGINT)
        assert gateway.process.wait(timeout=30) == -signal.SIGINT
        with pytest.raises(httpx.HTTPError):
            running.result()


@pytest.mark.parametrize("second", SERVERS)
@pytest.mark.parametrize("taken", ["callers", "operators"])
def test_a_port_that_is_taken_is_refused_at_the_start(
    gateway: Gateway, http_store: Path, second: str, taken: str
) -> None:
    """granian would share it without a word (SO_REUSEPORT), and take part of the traffic."""
    port = gateway.port if taken == "callers" else free_port()
    admin_port = gateway.admin_port if taken == "operators" else free_port()
    started = subprocess.run(
        command(http_store, port, admin_port, "--server", second),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert started.returncode == 2
    busy = gateway.port if taken == "callers" else gateway.admin_port
    assert started.stderr.splitlines()[-1].startswith(
        f"error: port {busy} is taken by another process"
    )
    assert httpx.get(f"{gateway.url}/v2").status_code == 200


@every_server
def test_the_announcement_is_what_a_newcomer_needs(http_store: Path, server: str) -> None:
    arguments = ("--server", server, "--model", "echo@1", "--slo-ms", "250")
    with running_gateway(http_store, *arguments) as gateway:
        said = gateway.announcement
        assert f"serves 1 model of {http_store}" in said
        assert "echo@1  sha256:" in said
        assert "within 250 ms at p99 (flag --slo-ms)" in said
        assert f"{gateway.admin_url}/docs" in said
        example = next(line for line in said.splitlines() if "curl" in line)
        url, body = example.split()[1], example.split("'")[1]
        reply = httpx.post(url, content=body)
        assert reply.json()["predictions"] == [[0.0, 0.0, 0.0]]
        assert httpx.get(f"{gateway.url}/v2/models/echo").json()["parameters"]["slo_ms"] == 250
