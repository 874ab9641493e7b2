"""The machine's own clocks; the only module that imports ``time``."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from tidegate.units import Nanoseconds, ns_to_seconds


class SystemClock:
    """``time.monotonic_ns`` and the calendar, as the ports ``Clock`` and ``WallClock``."""

    now_ns = staticmethod(cast("Callable[[], Nanoseconds]", time.monotonic_ns))
    """The present monotonic instant: the function itself, for one around it takes three times as
    long, and every request asks ten times."""

    def utc_now(self) -> datetime:
        """Return the present calendar instant in UTC."""
        return datetime.now(UTC)


def sleep_ns(duration_ns: int) -> None:
    """Block this thread: between tries of adapters that are synchronous, never on an event loop."""
    time.sleep(ns_to_seconds(duration_ns))
