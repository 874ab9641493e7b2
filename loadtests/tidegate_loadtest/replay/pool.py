"""Connections that are kept between requests, so that opening one is not part of a latency."""

import asyncio

from tidegate.clock import Clock
from tidegate.units import NS_PER_SECOND
from tidegate_loadtest.replay.connection import Connection

KEPT_NS = 3 * NS_PER_SECOND
"""Servers close what idles for 5 s and longer; a request must not meet that."""


class Pool:
    """Idle connections to one address; the one that was used last is used first."""

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self.opened = 0
        """Connections opened so far."""
        self._address = host, port
        self._clock = clock
        self._idle: list[tuple[int, Connection]] = []

    async def open(self) -> Connection:
        """Open a connection that is not in the pool yet.

        Raises:
            OSError: Nobody listens there, or no more can be opened.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, *self._address)
        self.opened += 1
        return connection

    def take(self) -> Connection | None:
        """Return an idle connection that is still good; ``None`` if there is none."""
        while self._idle:
            since_ns, connection = self._idle.pop()
            if connection.is_open and self._clock.now_ns() - since_ns < KEPT_NS:
                return connection
            connection.leave()
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange is over; without effect if it closed."""
        if connection.is_open:
            self._idle.append((self._clock.now_ns(), connection))

    def close(self) -> None:
        """Close what idles."""
        for _, connection in self._idle:
            connection.leave()
        self._idle.clear()
