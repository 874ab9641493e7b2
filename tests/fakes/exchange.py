"""A request without a server: its body is there, comes when a test says so, or never."""

import asyncio
from collections.abc import Mapping, Sequence

from tidegate.units import Nanoseconds
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.guards import too_large


class FakeExchange(Exchange):
    """What an adapter would be, driven by a test."""

    __slots__ = ("body", "headers", "watched")

    def __init__(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        began_at_ns: int = 0,
    ) -> None:
        super().__init__(method, path, began_at_ns=Nanoseconds(began_at_ns))
        self.headers = {"content-length": str(len(body)), **(headers or {})}
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.body.set_result(body)
        self.watched = 0
        """How often it was watched, less how often that was ended."""

    @classmethod
    def uploading(cls, path: str, *, began_at_ns: int = 0) -> "FakeExchange":
        """Begin a request whose body is still to come: set ``body``."""
        exchange = cls("POST", path, began_at_ns=began_at_ns)
        exchange.body = asyncio.get_running_loop().create_future()
        return exchange

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def header_values(self, name: str) -> Sequence[str]:
        return [self.headers[name]] if name in self.headers else []

    async def _receive(self, limit_bytes: int) -> bytes:
        body = await asyncio.shield(self.body)
        self._take(len(body))
        if len(body) > limit_bytes:
            raise too_large(len(body), limit_bytes)
        return body

    def watch(self, tasks: asyncio.TaskGroup) -> None:
        self.watched += 1

    def unwatch(self) -> None:
        self.watched -= 1
