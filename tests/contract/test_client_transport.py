"""Both transports against servers that misbehave as networks and proxies do."""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.fixtures.gateways import free_port
from tidegate.client.errors import (
    ClientError,
    ConnectionFailedError,
    DeadlineExpiredError,
    ServerFaultError,
)
from tidegate.client.http import AsyncPoolTransport, PoolTransport
from tidegate.client.transport import HttpReply, HttpRequest
from tidegate.clock import Clock, ManualClock
from tidegate.clock.system import SystemClock
from tidegate.units import NS_PER_SECOND

Send = Callable[..., list[HttpReply]]

QUESTION = HttpRequest(method="POST", path="/x", headers=(("a", "b"),), body=b"body")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Tag: 7\r\n\r\nok"
PATIENCE_NS = 30 * NS_PER_SECOND


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket, received: list[bytes]) -> None:
        self.connection = connection
        self.send = connection.sendall
        self._received = received

    def request(self) -> None:
        """Wait for a whole request."""
        found = b""
        while not found.endswith(b"body"):
            piece = self.connection.recv(65_536)
            if not piece:
                raise ConnectionError
            found += piece
        self._received.append(found)

    def is_left(self) -> bool:
        """Say whether the client has closed, without waiting for it."""
        self.connection.setblocking(False)
        try:
            return self.connection.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            self.connection.settimeout(30)


Serve = Callable[[Peer], None]


@contextmanager
def server(*serve: Serve) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one connection after the other, each in its own way; yields what was received."""
    received: list[bytes] = []

    def run(listener: socket.socket) -> None:
        for each in serve:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.settimeout(30)
                each(Peer(connection, received))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
        thread.join(30)
        assert not thread.is_alive()


def send_sync(
    url: str, *, times: int = 1, within_ns: int = PATIENCE_NS, clock: Clock | None = None
) -> list[HttpReply]:
    transport = PoolTransport(url, connections=2, ssl_context=None, clock=clock or SystemClock())
    try:
        return [transport.send(QUESTION, within_ns=within_ns) for _ in range(times)]
    finally:
        transport.close()


def send_async(url: str, *, times: int = 1, within_ns: int = PATIENCE_NS) -> list[HttpReply]:
    async def run() -> list[HttpReply]:
        transport = AsyncPoolTransport(url, connections=2, ssl_context=None)
        try:
            return [await transport.send(QUESTION, within_ns=within_ns) for _ in range(times)]
        finally:
            await transport.close()

    return asyncio.run(run())


both = pytest.mark.parametrize("send", [send_sync, send_async], ids=["threads", "asyncio"])


def failure(send: Send, url: str, **given: int) -> ClientError:
    with pytest.raises(ClientError) as raised:
        send(url, **given)
    return raised.value


def answering(*replies: bytes) -> Serve:
    def serve(peer: Peer) -> None:
        for reply in replies:
            peer.request()
            peer.send(reply)

    return serve


@both
def test_requests_go_out_whole_over_one_kept_connection(send: Send) -> None:
    with server(answering(OK, OK, OK)) as (url, received):
        replies = send(url + "/under", times=3)
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"ok")] * 3
    assert replies[0].headers["x-tag"] == "7"
    assert len(received) == 3
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /under/x HTTP/1.1\r\n")
    assert b"Content-Length: 4" in head
    assert body == b"body"


@both
def test_a_server_that_closes_after_each_reply_gets_new_connections(send: Send) -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with server(*[answering(closing)] * 3) as (url, _):
        assert [reply.body for reply in send(url, times=3)] == [b"ok"] * 3


@both
def test_a_kept_connection_that_ends_as_it_is_used_is_worth_another_try(send: Send) -> None:
    def serve(peer: Peer) -> None:
        answering(OK)(peer)
        hang_up(peer)

    with server(serve) as (url, _):
        error = failure(send, url, times=2)
    assert isinstance(error, ConnectionFailedError)
    assert error.worth_another_try


@both
def test_nobody_listening_is_worth_another_try(send: Send) -> None:
    error = failure(send, f"http://127.0.0.1:{free_port()}")
    assert isinstance(error, ConnectionFailedError)
    assert error.worth_another_try
    assert "refused" in str(error) or "failed" in str(error)


def hang_up(peer: Peer) -> None:
    peer.request()


def reset(peer: Peer) -> None:
    peer.request()
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@both
@pytest.mark.parametrize("serve", [hang_up, reset])
def test_a_connection_lost_before_the_reply_is_worth_another_try(send: Send, serve: Serve) -> None:
    with server(serve) as (url, _):
        error = failure(send, url)
    assert isinstance(error, ConnectionFailedError)
    assert error.worth_another_try


@both
@pytest.mark.parametrize(
    "reply", [OK[:-1], b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"]
)
def test_a_reply_that_is_cut_off_is_not_asked_for_again(send: Send, reply: bytes) -> None:
    with server(answering(reply)) as (url, _):
        error = failure(send, url)
    assert isinstance(error, ConnectionFailedError)
    assert not error.worth_another_try


@both
@pytest.mark.parametrize("reply", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 2 \r\n\r\n"])
def test_something_that_speaks_no_http_is_named(send: Send, reply: bytes) -> None:
    with server(answering(reply)) as (url, _):
        error = failure(send, url)
    assert isinstance(error, ServerFaultError)
    assert "public listener" in str(error)


@both
@pytest.mark.parametrize(
    ("url", "hint"),
    [("http://no-such-host.invalid", "not known|failure"), ("https://127.0.0.1:{port}", "SSL")],
)
def test_what_stays_wrong_is_not_tried_again(send: Send, url: str, hint: str) -> None:
    def no_tls(peer: Peer) -> None:
        peer.connection.recv(10)
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with server(*[no_tls] * ("port" in url)) as (served, _):
        error = failure(send, url.format(port=served.rpartition(":")[2]))
    assert isinstance(error, ConnectionFailedError)
    assert not error.worth_another_try
    assert re.search(hint, str(error))


@both
def test_a_server_that_says_nothing_is_not_waited_for(send: Send) -> None:
    def silent(peer: Peer) -> None:
        peer.request()
        assert peer.connection.recv(1) == b"", "the client closes what it gave up"

    with server(silent) as (url, _):
        error = failure(send, url, within_ns=NS_PER_SECOND // 20)
    assert isinstance(error, DeadlineExpiredError)
    assert "50 ms" in str(error)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_server_that_drips_cannot_stretch_the_deadline(part: str) -> None:
    """In threads, where each read has a timeout of its own; the clock is turned by the server."""
    clock = ManualClock()

    def drip(peer: Peer) -> None:
        peer.request()
        if part == "body":
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        for byte in b"HTTP/1.1 200 OK\r\n" + b"x-filler: y\r\n" * 100:
            clock.advance(NS_PER_SECOND)
            peer.send(bytes([byte]))
            if peer.is_left():
                return

    with server(drip) as (url, _), pytest.raises(DeadlineExpiredError):
        send_sync(url, within_ns=10 * NS_PER_SECOND, clock=clock)
    assert clock.now_ns() >= 10 * NS_PER_SECOND


async def test_cancelling_a_request_closes_its_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"body")
        asked.set()
        if await reader.read() == b"":
            closed.set()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    transport = AsyncPoolTransport(url, connections=1, ssl_context=None)
    async with listener, asyncio.TaskGroup() as group:
        task = group.create_task(transport.send(QUESTION, within_ns=PATIENCE_NS))
        await asked.wait()
        task.cancel()
        async with asyncio.timeout(30):
            await closed.wait()
    assert task.cancelled()
    await transport.close()


def test_threads_share_one_client_and_wait_for_a_free_connection() -> None:
    with server(answering(*[OK] * 40)) as (url, received):
        transport = PoolTransport(url, connections=1, ssl_context=None, clock=SystemClock())
        replies: list[HttpReply] = []

        def ask() -> None:
            replies.extend(transport.send(QUESTION, within_ns=PATIENCE_NS) for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        transport.close()
    assert [reply.body for reply in replies] == [b"ok"] * 40
    assert len(received) == 40
