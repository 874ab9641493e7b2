"""uvicorn: the alternative for the public listener, and the server of the admin listener.

It has no limit for headers, neither in time nor in size, and answers broken HTTP in plain text;
the protocol below adds both. Signals and the socket are ours.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import orjson
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidegate.errors import RequestRejectedError
from tidegate.oip.errors import MalformedRequestError
from tidegate_realtime.api.error_map import status_of
from tidegate_realtime.api.errors import HeadersTooLargeError, UriTooLongError
from tidegate_realtime.api.guards import (
    HEADER_LIMIT_BYTES,
    HEADER_LIMIT_COUNT,
    HEADER_LIMIT_S,
    PATH_LIMIT_BYTES,
)
from tidegate_realtime.api.servers.connections import BACKLOG, ConnectionLimits, Connections
from tidegate_realtime.api.servers.tls import Tls

KEEP_ALIVE_S: Final = 75
_DEFAULT_LIMITS: Final = ConnectionLimits()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, with limits on what comes before a request is handed over."""

    def __init__(self, connections: Connections, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(**kwargs)
        self._connections = connections
        self._address = ""
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start the clock: a caller who connects must say something; close one too many."""
        super().connection_made(transport)
        self._address = (transport.get_extra_info("peername") or [""])[0]
        if not self._connections.enter(self._address):
            transport.close()
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        self._connections.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes as long as it is headers."""
        super().data_received(data)
        if self._header_timer is not None and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_LIMIT_BYTES:
                self._refuse_headers()

    def on_message_begin(self) -> None:
        """Start the clock of the next request on this connection."""
        super().on_message_begin()
        if self._header_timer is None:
            self._start_clock()

    def on_headers_complete(self) -> None:
        """Stop the clock, and hand the request over."""
        self._stop_clock()
        if len(self.url) > PATH_LIMIT_BYTES:
            found, what = len(self.url), "bytes in its path and query"
            self._refuse(
                UriTooLongError.of(
                    what, limit=PATH_LIMIT_BYTES, found=found, advice="Shorten them."
                )
            )
            return
        size = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > HEADER_LIMIT_COUNT or size > HEADER_LIMIT_BYTES:
            self._refuse_headers()
            return
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer broken HTTP in the one form of all errors, and close."""
        self._refuse(MalformedRequestError(msg))

    def _start_clock(self) -> None:
        self._header_bytes = 0
        self._header_timer = self.loop.call_later(HEADER_LIMIT_S, self.transport.close)

    def _stop_clock(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _refuse_headers(self) -> None:
        self._refuse(
            HeadersTooLargeError(
                f"At most {HEADER_LIMIT_COUNT} headers of {HEADER_LIMIT_BYTES} bytes are accepted."
            )
        )

    def _refuse(self, error: RequestRejectedError) -> None:
        if self.transport.is_closing():
            return
        said = {"error": str(error), "code": error.code, "request_id": "", "details": {}}
        body = orjson.dumps(said)
        head = (
            f"HTTP/1.1 {status_of(error)} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Server(Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process: uvicorn would take them over and raise them again."""
        yield


class UvicornServer:
    """One listener on a socket that is bound already."""

    def __init__(
        self,
        app: Any,  # noqa: ANN401 - each server types ASGI its own way
        claimed: socket.socket,
        *,
        drain_limit_s: float,
        limits: ConnectionLimits = _DEFAULT_LIMITS,
        tls: Tls | None = None,
    ) -> None:
        """Listen on ``claimed``; connections wait until ``serve`` accepts them."""
        claimed.listen(BACKLOG)
        self._socket = claimed
        self._server = _Server(
            Config(
                app,
                http=partial(GuardedProtocol, Connections(limits)),  # type: ignore[arg-type] # called, and nothing else
                ws="none",
                lifespan="off",
                loop="none",
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(drain_limit_s)),
                log_config=None,
                access_log=False,
                server_header=False,
                ssl_certfile=tls and tls.cert,
                ssl_keyfile=tls and tls.key,
                ssl_ca_certs=tls and tls.client_ca and str(tls.client_ca),
                ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
            )
        )

    async def serve(self) -> None:
        """Serve until ``stop``; see ``HttpServer``."""
        await self._server.serve(sockets=[self._socket])

    async def started(self) -> None:
        """Return at once: the socket listens since it was given."""

    def stop(self) -> None:
        """Stop accepting; noticed within 0.1 s."""
        self._server.should_exit = True
