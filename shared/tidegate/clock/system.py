"""The machine's own clocks; the only module that imports ``time``."""

import time
from datetime import UTC, datetime

from tidegate.units import Nanoseconds, ns_to_seconds


class SystemClock:
    """``time.monotonic_ns`` and the calendar, as the ports ``Clock`` and ``WallClock``."""

    def now_ns(self) -> Nanoseconds:
        """Return the present monotonic instant."""
        return Nanoseconds(time.monotonic_ns())

    def utc_now(self) -> datetime:
        """Return the present calendar instant in UTC."""
        return datetime.now(UTC)


def sleep_ns(duration_ns: int) -> None:
    """Block this thread: between tries of adapters that are synchronous, never on an event loop."""
    time.sleep(ns_to_seconds(duration_ns))
