"""Connections that are too many, silent or slow: bounded, closed, and nobody else suffers."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select

import httpx
import pytest

from tests.fixtures.gateways import SERVERS, Gateway, running_gateway

HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
UPLOAD = b"POST /v1/models/echo:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"
LIMIT = 20
MANY = 512
"""Of a MiB each: all that bodies may hold together."""


@contextmanager
def limited(http_store: Path, server: str, **limits: int) -> Iterator[Gateway]:
    variables = {f"TIDEGATE_SERVE__{name.upper()}": str(value) for name, value in limits.items()}
    arguments = ("--server", server, "--model", "echo")
    with running_gateway(http_store, *arguments, environment=variables) as gateway:
        yield gateway
        assert "Traceback" not in gateway.log.read_text()


def opened(gateway: Gateway, stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(gateway.connect()) for _ in range(count)]


def is_answered(gateway: Gateway) -> bool:
    with gateway.connect() as connection:
        return b" 200 " in answer_of(connection)


def answer_of(connection: socket.socket) -> bytes:
    """Ask for health; nothing if the connection is closed."""
    answer = b""
    with suppress(ConnectionError):
        connection.sendall(HEALTH)
        while not answer.endswith(b"}") and (part := connection.recv(65_536)):
            answer += part
    return answer


@pytest.mark.parametrize("limit", ["connection_limit", "connection_limit_per_address"])
def test_uvicorn_closes_a_connection_too_many(http_store: Path, limit: str) -> None:
    with limited(http_store, "uvicorn", **{limit: LIMIT}) as gateway, ExitStack() as stack:
        connections = opened(gateway, stack, LIMIT)
        assert all(b" 200 " in answer_of(connection) for connection in connections)
        with gateway.connect() as refused:
            assert answer_of(refused) == b""
        assert b" 200 " in answer_of(connections[0])
        connections[0].close()
        assert any(is_answered(gateway) for _ in range(1_000))  # once the server has noticed


def test_granian_lets_a_connection_too_many_wait(http_store: Path) -> None:
    with limited(http_store, "granian", connection_limit=LIMIT) as gateway, ExitStack() as stack:
        connections = opened(gateway, stack, LIMIT)
        assert all(b" 200 " in answer_of(connection) for connection in connections)
        waiting = stack.enter_context(gateway.connect())
        waiting.sendall(HEALTH)
        assert select([waiting], [], [], 0.2)[0] == []
        connections[0].close()
        assert b" 200 " in waiting.recv(65_536)


@pytest.mark.field_fault("P-40")
@pytest.mark.parametrize("server", SERVERS)
def test_200_slow_callers_are_cut_off_and_nobody_waits_for_them(
    http_store: Path, server: str
) -> None:
    """Half of them drip their headers, half their bodies, one byte a second each."""
    with limited(http_store, server) as gateway, ExitStack() as stack:
        slow = opened(gateway, stack, 200)
        for number, connection in enumerate(slow):
            connection.sendall(HEALTH[:10] if number % 2 else UPLOAD)
            connection.setblocking(False)
        took_s: list[float] = []
        answers: dict[socket.socket, bytes] = {}
        with httpx.Client(base_url=gateway.url) as client:
            for _ in range(40):
                ended, _, _ = select([c for c in slow if c not in answers], [], [], 1)
                answers |= {connection: answer_of_ended(connection) for connection in ended}
                if len(answers) == len(slow):
                    break
                for connection in slow:
                    drip(connection)
                reply = client.get("/v2/health/live")
                took_s.append(reply.elapsed.total_seconds())
                assert reply.status_code == 200
        assert len(answers) == len(slow), f"{len(slow) - len(answers)} are still open"
        uploads = [answers[connection] for connection in slow[::2]]
        assert sum(b" 408 " in answer[:20] for answer in uploads) > 90  # a reset loses some
        assert sorted(took_s)[len(took_s) // 2] < 0.1
        assert max(took_s) < 1
        assert gateway.metric("tidegate_in_flight_requests") == 0


@pytest.mark.parametrize("server", SERVERS)
def test_bodies_that_are_only_announced_take_nobody_elses_place(
    http_store: Path, server: str
) -> None:
    announced = UPLOAD.replace(b"60000", b"1048576")
    room = {"connection_limit_per_address": 2 * MANY}
    with limited(http_store, server, **room) as gateway, ExitStack() as stack:
        for connection in opened(gateway, stack, MANY):
            connection.sendall(announced)
        gateway.wait_for(MANY, "tidegate_in_flight_requests")
        asked = {"instances": [[1, 2, 3]]}
        reply = httpx.post(f"{gateway.url}/v1/models/echo:predict", json=asked, timeout=30)
        assert reply.status_code == 200


def drip(connection: socket.socket) -> None:
    with suppress(OSError):  # closed meanwhile
        connection.send(b"a")


def answer_of_ended(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionError:
        return b""
