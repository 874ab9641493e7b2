"""The endpoint under any ASGI server (3.0): uvicorn, as the alternative to granian."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from tidegate.clock import Clock
from tidegate.units import Nanoseconds
from tidegate_realtime.api.endpoint import Endpoint
from tidegate_realtime.api.errors import CallerLeftError
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.guards import too_large
from tidegate_realtime.api.replies import CLOSE
from tidegate_realtime.api.sweeper import Sweeper

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_CALLER_LEFT: Final = 499


class AsgiExchange(Exchange):
    """One request that came by an ASGI server."""

    __slots__ = ("_headers", "_next_message", "_pairs", "_watcher")

    def __init__(self, scope: Message, receive: Receive, *, began_at_ns: Nanoseconds) -> None:
        path = scope["raw_path"].decode("latin-1")
        super().__init__(scope["method"], path, began_at_ns=began_at_ns)
        self._pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
        self._headers: dict[bytes, bytes] = dict(self._pairs)
        self._next_message = receive
        self._watcher: asyncio.Task[None] | None = None

    def header(self, name: str) -> str | None:
        """Return a header; of a repeated one the last (see ``check_single``)."""
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    def header_values(self, name: str) -> Sequence[str]:
        """Return every value of a header."""
        sought = name.encode()
        return [value.decode("latin-1") for key, value in self._pairs if key == sought]

    async def _receive(self, limit_bytes: int) -> bytes:
        """Return the body; it comes in pieces."""
        body = bytearray()
        while True:
            message = await self._next_message()
            if message["type"] == "http.disconnect":
                raise CallerLeftError("The caller left before the body was whole.")
            part = message.get("body", b"")
            self._take(len(part))
            body += part
            if len(body) > limit_bytes:
                raise too_large(len(body), limit_bytes)
            if not message.get("more_body", False):
                return bytes(body)

    def watch(self, tasks: asyncio.TaskGroup) -> None:
        """Wait for the next message, which can only be that the caller left."""
        self._watcher = tasks.create_task(self._await_departure(), name="await departure")

    async def _await_departure(self) -> None:
        await self._next_message()
        self.depart()

    def unwatch(self) -> None:
        """Stop waiting."""
        if self._watcher is not None:
            self._watcher.cancel()


class AsgiApp:
    """The ASGI callable."""

    def __init__(self, endpoint: Endpoint, sweeper: Sweeper, clock: Clock) -> None:
        self._endpoint = endpoint
        self._sweeper = sweeper
        self._clock = clock

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = AsgiExchange(scope, receive, began_at_ns=self._clock.now_ns())
        self._sweeper.add(exchange)
        try:
            reply = await self._endpoint.answer(exchange)
        finally:
            self._sweeper.remove(exchange)
        if reply.status == _CALLER_LEFT:
            return
        headers = [*reply.headers, CLOSE] if exchange.must_close else reply.headers
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        encoded.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
        await send({"type": "http.response.body", "body": reply.body})
