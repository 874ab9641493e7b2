"""One keep-alive connection of HTTP/1.1: a request out, a reply in, and again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import httptools


@dataclass(slots=True, eq=False)  # one per request, and nobody changes it
class Reply:
    """What a server answered."""

    status: int
    body: bytes


Ended: TypeAlias = Callable[[Reply | None], None]
"""Told once an exchange is over; ``None``: the connection went before the reply was complete."""


class Connection(asyncio.Protocol):
    """Carries one exchange at a time; where it is not reusable afterwards, it closes itself."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._ended: Ended | None = None

    def send(self, request: bytes, ended: Ended) -> None:
        """Begin an exchange; the one before must be over."""
        assert self._transport is not None
        assert self._ended is None
        self._ended = ended
        self._transport.write(request)

    def leave(self) -> None:
        """Close at once, as a caller does who does not wait for the reply any longer.

        An exchange in progress ends with ``None``, before this returns.
        """
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()
        self._end(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what asyncio opened."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Read on; a reply that is none ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits that nothing more will come."""
        del exc
        self.is_open = False
        self._end(None)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the reply; the parser calls this."""
        self._body += body

    def on_message_complete(self) -> None:
        """End the exchange; the parser calls this."""
        reply = Reply(self._parser.get_status_code(), bytes(self._body))
        self._body.clear()
        if not self._parser.should_keep_alive():
            self.is_open = False
            assert self._transport is not None
            self._transport.close()
        self._end(reply)

    def _end(self, reply: Reply | None) -> None:
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended(reply)
