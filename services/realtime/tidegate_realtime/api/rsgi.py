"""The endpoint under granian, by its own interface (RSGI 1.6).

Three things that granian decides for us: the path comes decoded once already, so that ``%2F`` in it
cannot be told from a slash (no route gains anything by it, each has the same check); where a
request has both Content-Length and Transfer-Encoding, hyper reads it as chunked and closes the
connection after it (RFC 9112, section 6.3); and chunks that end early look like their end, so that
only what they say can tell.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined] # exported without __all__

from tidegate.clock import Clock
from tidegate.oip.errors import MalformedRequestError
from tidegate.units import Nanoseconds
from tidegate_realtime.api.endpoint import Endpoint
from tidegate_realtime.api.errors import TruncatedBodyError, UploadTooSlowError
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.guards import too_large
from tidegate_realtime.api.replies import CLOSE
from tidegate_realtime.api.sweeper import Sweeper

_CALLER_LEFT: Final = 499
_NOBODY_READS_THIS: Final = 400
_ONE_PIECE_BYTES: Final = 64 << 10
"""All 2,048 connections may announce that much and send nothing: a quarter of what all bodies may
hold, and less than a body must have brought when it begins to count as slow."""
_ANY_CHUNKS: Final = 4_096
_SMALLEST_CHUNK_BYTES: Final = 64
"""On average, after ``_ANY_CHUNKS``: each crosses threads twice, 0.15 ms of a core altogether, so
that one caller with many tiny ones would occupy it for as long as a body may take."""


class RsgiHeaders(Protocol):
    """Of a request; names in lower case."""

    def get(self, key: str) -> str | None:
        """Return the first header of this name."""
        ...

    def get_all(self, key: str) -> list[str]:
        """Return all headers of this name."""
        ...


class RsgiScope(Protocol):
    """What granian knows of a request before its body."""

    @property
    def method(self) -> str:
        """In upper case."""
        ...

    @property
    def path(self) -> str:
        """Percent-decoded once, without the query."""
        ...

    @property
    def headers(self) -> RsgiHeaders:
        """All of them that are text."""
        ...


class RsgiFuture(Protocol):
    """Not asyncio's: it takes one callback, and cancelling it calls back too."""

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        """Set the callback, which is called on the loop."""
        ...

    def remove_done_callback(self, callback: object) -> None:
        """Take the callback away, whichever is named."""
        ...

    def cancel(self) -> None:
        """Let go of it."""
        ...


class RsgiProtocol(Protocol):
    """How granian takes the body out and the reply in."""

    async def __call__(self) -> bytes:
        """Return the whole body; raises ``ProtocolClosed`` if it ends early."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; it just ends if it ends early."""
        ...

    def client_disconnect(self) -> RsgiFuture:
        """Return a future that is done when the connection closes; read the body first."""
        ...

    def response_empty(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Answer without a body."""
        ...

    def response_bytes(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Answer; silent if nobody is there any more."""
        ...


class RsgiExchange(Exchange):
    """One request that came by granian."""

    __slots__ = ("_proto", "_watcher", "header", "header_values")

    header: Callable[[str], str | None]
    """granian's own, of a repeated one the first (see ``check_single``): a method around it would
    take longer than it does."""
    header_values: Callable[[str], Sequence[str]]
    """Likewise."""

    def __init__(self, scope: RsgiScope, proto: RsgiProtocol, *, began_at_ns: Nanoseconds) -> None:
        path = scope.path
        if "%" in path:  # it was %25: say so again, for the path must be decoded only once
            path = path.replace("%", "%25")
        super().__init__(scope.method, path, began_at_ns=began_at_ns)
        headers = scope.headers
        self.header, self.header_values = headers.get, headers.get_all
        self._proto = proto
        self._watcher: RsgiFuture | None = None

    async def _receive(self, limit_bytes: int) -> bytes:
        """Return the body, in one piece if it is known to be short, else counting as it comes.

        In one piece is quicker, but how much has come is not seen, so that all of it counts as
        held from the beginning: too much to believe of what a caller only announces.
        """
        length = self.length_bytes
        if length is None or length > _ONE_PIECE_BYTES:
            return await self._counted(limit_bytes)
        self._take(length)
        try:
            return await self._proto()
        except ProtocolClosed:
            raise _truncated() from None

    async def _counted(self, limit_bytes: int) -> bytes:
        body, chunks = bytearray(), 0
        async for chunk in self._proto:
            self._take(len(chunk))
            body += chunk
            chunks += 1
            if len(body) > limit_bytes:
                raise too_large(len(body), limit_bytes)
            if chunks > _ANY_CHUNKS and len(body) < chunks * _SMALLEST_CHUNK_BYTES:
                raise MalformedRequestError(
                    f"The body has come in {chunks} chunks of {len(body) // chunks} bytes; send "
                    f"chunks of {_SMALLEST_CHUNK_BYTES} bytes and more."
                )
        if self.length_bytes not in (None, len(body)):  # the iteration just ends
            raise _truncated()
        return bytes(body)

    async def skip(self) -> None:
        """Read a short body that nobody wants, for the connection to go on after the reply.

        If it has not come when the reply is sent, granian closes without a word, and the caller
        may never see the reply. Where ``must_close`` is so, nothing is read.
        """
        if not self._is_untouched or self.must_close:
            return
        self._begin_reading()
        with suppress(UploadTooSlowError):
            try:
                await self._proto()
                self.is_read = True
            except ProtocolClosed:
                pass
            finally:
                self._end_reading()

    def watch(self, tasks: asyncio.TaskGroup) -> None:
        """Ask granian to call when the connection closes; no task is needed for it."""
        self._watcher = self._proto.client_disconnect()
        self._watcher.add_done_callback(self._closed)

    def unwatch(self) -> None:
        """Forget it, or it would stay in memory until the connection closes."""
        if self._watcher is not None:
            self._watcher.remove_done_callback(None)  # else cancelling would call back
            self._watcher.cancel()

    def _closed(self, _: object) -> None:
        self.depart()


def _truncated() -> TruncatedBodyError:
    return TruncatedBodyError("The body ended before its Content-Length.")


class RsgiApp:
    """What granian calls for each request."""

    def __init__(self, endpoint: Endpoint, sweeper: Sweeper, clock: Clock) -> None:
        self._endpoint = endpoint
        self._sweeper = sweeper
        self._clock = clock

    async def __rsgi__(self, scope: RsgiScope, proto: RsgiProtocol) -> None:
        """Answer one request; it runs to its end even if the caller leaves."""
        exchange = RsgiExchange(scope, proto, began_at_ns=self._clock.now_ns())
        self._sweeper.add(exchange)
        try:
            reply = await self._endpoint.answer(exchange)
            if not exchange.is_read:
                await exchange.skip()
        finally:
            self._sweeper.remove(exchange)
        if reply.status == _CALLER_LEFT:  # granian logs an error if nothing is answered at all
            proto.response_empty(_NOBODY_READS_THIS, [CLOSE])
            return
        headers = [*reply.headers, CLOSE] if exchange.must_close else reply.headers
        proto.response_bytes(reply.status, headers, reply.body)
