"""Who is bound to a version: requests that found it and have not ended."""

import asyncio

from tidegate.units import Nanoseconds


class Use:
    """Counts the requests of one version; every call is made on the event loop's thread.

    A request is bound to the version that it found, from its headers to the last byte of its
    answer. The version may be shown to nobody else meanwhile, but it goes only when the last of
    them has ended: one that still uploads will be scored by it, too.
    """

    __slots__ = ("_bound", "_unbound", "last_at_ns")

    def __init__(self) -> None:
        self._bound = 0
        self._unbound = asyncio.Event()
        self._unbound.set()
        self.last_at_ns = Nanoseconds(0)
        """When a request last found this version."""

    @property
    def bound(self) -> int:
        """Requests that have not ended."""
        return self._bound

    def begin(self, now_ns: Nanoseconds) -> None:
        """Bind a request; ``end`` must follow, whatever becomes of it."""
        self._bound += 1
        self.last_at_ns = now_ns
        if self._bound == 1:
            self._unbound.clear()

    def end(self) -> None:
        """Let go of a request."""
        self._bound -= 1
        if not self._bound:
            self._unbound.set()

    async def ended(self) -> None:
        """Wait until nothing is bound to it; cancelling leaves nothing behind."""
        await self._unbound.wait()
