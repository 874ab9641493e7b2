"""The open loop: every request leaves at its instant, whatever became of those before it."""

import asyncio
import gc
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import orjson

from tidegate.clock import Clock
from tidegate.clock.system import SystemClock
from tidegate.units import ns_to_seconds
from tidegate_loadtest.replay.connection import Connection, Reply
from tidegate_loadtest.replay.pool import Pool
from tidegate_loadtest.replay.traffic import LEFT, LOST, NEVER, Log, Traffic

OK: Final = 200
CONNECTIONS: Final = 16
"""Opened before the first request is due; more are opened as they are needed."""
MOST_CONNECTIONS: Final = 500
"""At a time; a request that would need one more is lost, and counts as missed. A gateway allows 512
from one address by default, and ``select`` knows about a thousand."""
GIVE_UP_S: Final = 10.0
"""After the last request was due: what has no reply by then is ``OPEN``."""


def replay(traffic: Traffic, *, host: str, port: int, give_up_s: float = GIVE_UP_S) -> Log:
    """Send traffic from this thread, which does nothing else until all of it has ended.

    ``select`` in place of ``epoll``: its timeouts are microseconds where the others' are
    milliseconds, which matters more here than its cost with some hundred connections.

    Raises:
        OSError: Nobody listens there.
    """

    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(selectors.SelectSelector())

    with _without_collector(), asyncio.Runner(loop_factory=loop) as runner:
        clock = SystemClock()
        sender = Sender(traffic, Pool(host, port, clock), clock)
        return runner.run(sender.run(give_up_s=give_up_s))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the search for cycles from delaying a request."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Sender:
    """One run of some traffic over one pool."""

    def __init__(
        self,
        traffic: Traffic,
        pool: Pool,
        clock: Clock,
        *,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._traffic = traffic
        self._pool = pool
        self._clock = clock
        self._most_connections = most_connections
        self._log = Log.begin(traffic.at_ns)
        self._patience_ns: list[int] = []
        if traffic.leave_after_ns is not None:
            self._patience_ns = traffic.leave_after_ns.tolist()
        self._in_progress: set[_Exchange] = set()
        self._one_ended = asyncio.Event()
        self._start_ns = 0

    async def run(self, *, give_up_s: float = GIVE_UP_S) -> Log:
        """Send everything, and wait for the replies until ``give_up_s`` after the last was due.

        Cancelling it closes every connection.

        Raises:
            OSError: Nobody listens there.
        """
        for connection in [await self._pool.open() for _ in range(CONNECTIONS)]:
            self._pool.give_back(connection)
        self._start_ns = self._clock.now_ns()
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._send_all(tasks)
                await self._wait_for_replies(give_up_s)
        finally:
            for exchange in self._in_progress.copy():
                exchange.abandon()
            self._pool.close()
        return self._log

    async def _send_all(self, tasks: asyncio.TaskGroup) -> None:
        for place, at_ns in enumerate(self._traffic.at_ns.tolist()):
            early_ns = self._start_ns + at_ns - self._clock.now_ns()
            if early_ns > 0:
                await asyncio.sleep(ns_to_seconds(early_ns))
            exchange = _Exchange(self, place)
            self._in_progress.add(exchange)
            connection = self._pool.take()
            if connection is None and len(self._in_progress) > self._most_connections:
                self.end(exchange, LOST)
            elif connection is None:
                tasks.create_task(self._connect_and_send(exchange), name="connect")
            else:
                self._send(exchange, connection)

    async def _connect_and_send(self, exchange: "_Exchange") -> None:
        try:
            connection = await self._pool.open()
        except OSError:
            self.end(exchange, LOST)
        else:
            self._send(exchange, connection)

    def _send(self, exchange: "_Exchange", connection: Connection) -> None:
        place, requests = exchange.place, self._traffic.requests
        self._log.sent_ns[place] = self._clock.now_ns() - self._start_ns
        patience_ns = self._patience_ns[place] if self._patience_ns else NEVER
        exchange.begin(connection, requests[place % len(requests)], patience_ns)

    def end(self, exchange: "_Exchange", status: int, reason: str = "") -> None:
        """Note how one exchange ended."""
        self._log.ended_ns[exchange.place] = self._clock.now_ns() - self._start_ns
        self._log.status[exchange.place] = status
        if reason:
            self._log.codes[exchange.place] = reason
        if exchange.connection is not None:
            self._pool.give_back(exchange.connection)
        self._in_progress.discard(exchange)
        self._one_ended.set()

    async def _wait_for_replies(self, give_up_s: float) -> None:
        try:
            async with asyncio.timeout(give_up_s):
                while self._in_progress:
                    self._one_ended.clear()
                    await self._one_ended.wait()
        except TimeoutError:
            return  # their status says so


class _Exchange:
    """One request on its way."""

    __slots__ = ("_leaving", "_sender", "connection", "has_left", "place")

    def __init__(self, sender: Sender, place: int) -> None:
        self.place = place
        self.connection: Connection | None = None
        self.has_left = False
        self._sender: Sender | None = sender
        self._leaving: asyncio.TimerHandle | None = None

    def begin(self, connection: Connection, request: bytes, patience_ns: int) -> None:
        """Send the request, and leave after ``patience_ns`` unless that is ``NEVER``."""
        self.connection = connection
        connection.send(request, self._ended)
        if patience_ns != NEVER:
            loop = asyncio.get_running_loop()
            self._leaving = loop.call_later(ns_to_seconds(patience_ns), self._leave)

    def abandon(self) -> None:
        """Close the connection and note nothing."""
        self._sender = None
        if self.connection is not None:
            self.connection.leave()

    def _leave(self) -> None:
        assert self.connection is not None
        self.has_left = True
        self.connection.leave()

    def _ended(self, reply: Reply | None) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        if self._sender is None:
            return
        if reply is None:
            self._sender.end(self, LEFT if self.has_left else LOST)
        else:
            self._sender.end(self, reply.status, "" if reply.status == OK else _code(reply.body))


def _code(body: bytes) -> str:
    """Return the reason that a refusal names, or nothing if it is not one of ours."""
    try:
        return str(orjson.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return ""
