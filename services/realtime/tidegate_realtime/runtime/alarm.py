"""One timer on the event loop, for the earliest instant at which something is due."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from tidegate.clock import Clock
from tidegate.units import NS_PER_MS, Nanoseconds, ns_to_seconds

Ring: TypeAlias = Callable[[Nanoseconds, Nanoseconds], None]
"""What was asked for, and what the time is; the second is never before the first."""


class Alarm:
    """Rings once at the instant that was set last, never before it."""

    def __init__(self, clock: Clock, ring: Ring) -> None:
        """Set nothing yet; call it on the running loop."""
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ns: Nanoseconds | None, now_ns: Nanoseconds) -> None:
        """Ring then, and not when it was set to before; ``None``: never."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            self._wait(Nanoseconds(at_ns - now_ns), at_ns)

    def _wait(self, delay_ns: Nanoseconds, at_ns: Nanoseconds) -> None:
        self._timer = self._loop.call_later(ns_to_seconds(delay_ns), self._look, at_ns)

    def _look(self, at_ns: Nanoseconds) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < at_ns:
            # uvloop's timers come up to half a millisecond early, and it takes a shorter one for
            # "at once": asked for the exact rest, it would spin until the deadline.
            self._wait(Nanoseconds(max(at_ns - now_ns, NS_PER_MS)), at_ns)
        else:
            self._ring(at_ns, now_ns)
