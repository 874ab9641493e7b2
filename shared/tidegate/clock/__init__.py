"""The time as a port: production reads the machine's clock, tests turn one by hand."""

from datetime import datetime
from typing import Protocol

from tidegate.units import Nanoseconds


class Clock(Protocol):
    """Monotonic time for durations and deadlines."""

    def now_ns(self) -> Nanoseconds:
        """Return the present monotonic instant, in nanoseconds since an arbitrary start."""
        ...


class WallClock(Protocol):
    """Calendar time, for records that people and other machines read."""

    def utc_now(self) -> datetime:
        """Return the present instant, in UTC and aware of it."""
        ...


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> Nanoseconds:
        """Return the instant that the clock was moved to."""
        return Nanoseconds(self._now_ns)

    def advance(self, by_ns: int) -> None:
        """Move the clock forward.

        Raises:
            ValueError: ``by_ns`` is negative; monotonic time never steps back.
        """
        if by_ns < 0:
            raise ValueError(f"cannot move a monotonic clock by {by_ns} ns; the step must be >= 0")
        self._now_ns += by_ns
