"""Watches over requests that take long: has the caller left, is the body still coming?

Nearly every request is answered within a few milliseconds. To watch each of them with a task of
its own costs 17 to 24 % of the throughput; to look only at those older than 20 ms, all of them
from one task, costs next to nothing.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from tidegate.clock import Clock
from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds, ns_to_seconds
from tidegate_realtime.api.bodies import HeldBodies
from tidegate_realtime.api.exchange import Exchange

WATCH_AFTER_NS: Final = Nanoseconds(20 * NS_PER_MS)
"""A caller who leaves earlier is noticed when the batch has run: at most that much is wasted."""
UPLOAD_LIMIT_NS: Final = Nanoseconds(60 * NS_PER_SECOND)
"""For a whole body; uvicorn and granian have no limit of their own (uvicorn#157)."""


SLOW_AFTER_NS: Final = Nanoseconds(5 * NS_PER_SECOND)
SLOWEST_UPLOAD_BYTES_PER_S: Final = 16 << 10
"""On average, once ``SLOW_AFTER_NS`` are over: slower than any network that people still use."""


class Sweeper:
    """Holds every request in progress, in the order of arrival."""

    def __init__(
        self,
        clock: Clock,
        *,
        bodies: HeldBodies | None = None,
        watch_after_ns: Nanoseconds = WATCH_AFTER_NS,
        upload_limit_ns: Nanoseconds = UPLOAD_LIMIT_NS,
    ) -> None:
        """Let nothing be in progress yet; call it on the running loop."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.bodies = bodies or HeldBodies()
        self._watch_after_ns = watch_after_ns
        self._upload_limit_ns = upload_limit_ns
        self._young: dict[Exchange, None] = {}
        self._watched: dict[Exchange, None] = {}
        self._occupied = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def in_progress(self) -> int:
        """How many requests have begun and not ended."""
        return len(self._young) + len(self._watched)

    def add(self, exchange: Exchange) -> None:
        """Take a request whose headers have been read."""
        exchange.bodies, exchange.loop = self.bodies, self._loop
        if not self._young and self._empty.is_set():
            self._empty.clear()
            self._occupied.set()
        self._young[exchange] = None

    def remove(self, exchange: Exchange) -> None:
        """Let go of a request that has ended, and of its body."""
        if exchange.held_bytes:
            self.bodies.give_back(exchange.held_bytes)
            exchange.held_bytes = 0
        if exchange in self._young:
            del self._young[exchange]
        elif exchange in self._watched:
            del self._watched[exchange]
            exchange.unwatch()
        if not self._young and not self._watched:
            self._occupied.clear()
            self._empty.set()

    async def idle(self) -> None:
        """Wait until no request is in progress; cancelling leaves nothing behind."""
        await self._empty.wait()

    def cut_uploads(self) -> None:
        """End every request whose body has not arrived yet, as if it had been too slow."""
        for exchange in [*self._young, *self._watched]:
            exchange.cut_upload()

    async def run(self) -> None:
        """Sweep for ever, but not while there is nothing to sweep; cancel it to end it."""
        pause_s = ns_to_seconds(self._watch_after_ns) / 2
        async with asyncio.TaskGroup() as watchers:
            while True:
                await self._occupied.wait()
                await asyncio.sleep(pause_s)
                self.sweep(watchers)

    def sweep(self, watchers: asyncio.TaskGroup) -> None:
        """Look once: begin to watch what has become old, and cut uploads that take too long."""
        now_ns = self._clock.now_ns()
        for exchange in list(self._older(self._young, now_ns - self._watch_after_ns)):
            if not exchange.is_uploading:  # neither server sees a departure before the body is read
                del self._young[exchange]
                self._watched[exchange] = None
                exchange.watch(watchers)
        for exchange in list(self._older(self._young, now_ns - SLOW_AFTER_NS)):
            age_ns = now_ns - exchange.began_at_ns
            due_bytes = SLOWEST_UPLOAD_BYTES_PER_S * age_ns // NS_PER_SECOND
            if age_ns >= self._upload_limit_ns or exchange.came_bytes < due_bytes:
                exchange.cut_upload()

    @staticmethod
    def _older(exchanges: dict[Exchange, None], began_at_ns: int) -> Iterator[Exchange]:
        for exchange in exchanges:
            if exchange.began_at_ns > began_at_ns:
                return
            yield exchange
