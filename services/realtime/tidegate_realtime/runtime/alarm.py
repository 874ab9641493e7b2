"""One timer on the event loop, for the earliest instant at which something is due."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from tidegate.clock import Clock
from tidegate.units import NS_PER_MS, Nanoseconds, ns_to_seconds

Ring: TypeAlias = Callable[[Nanoseconds, Nanoseconds], None]
"""What was asked for, and what the time is; the second is never before the first."""


class Alarm:
    """Rings once at the instant that was set last, never before it.

    Under load that instant moves later with every batch. A timer that is due before it is left as
    it is and looks again when it fires, because to cancel one and start another costs more than
    all the rest here: so there is about one timer for each objective's time, not for each batch.
    """

    def __init__(self, clock: Clock, ring: Ring) -> None:
        """Set nothing yet; call it on the running loop."""
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._at_ns: Nanoseconds | None = None
        self._looks_at_ns = Nanoseconds(0)
        """When the timer is due, which may be before it shall ring."""

    def set(self, at_ns: Nanoseconds | None, now_ns: Nanoseconds) -> None:
        """Ring then, and not when it was set to before; ``None``: never."""
        self._at_ns = at_ns
        if self._timer is not None:
            if at_ns is not None and self._looks_at_ns <= at_ns:
                return
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            self._wait(at_ns - now_ns, at_ns)

    def _wait(self, delay_ns: int, at_ns: Nanoseconds) -> None:
        self._looks_at_ns = at_ns
        self._timer = self._loop.call_later(ns_to_seconds(delay_ns), self._look)

    def _look(self) -> None:
        self._timer, at_ns = None, self._at_ns
        assert at_ns is not None  # else there would be no timer
        now_ns = self._clock.now_ns()
        if now_ns >= at_ns:
            self._ring(at_ns, now_ns)
        elif self._looks_at_ns < at_ns:
            self._wait(at_ns - now_ns, at_ns)
        else:
            # uvloop's timers come up to half a millisecond early, and it takes a shorter one for
            # "at once": asked for the exact rest, it would spin until the deadline.
            self._wait(max(at_ns - now_ns, NS_PER_MS), at_ns)
