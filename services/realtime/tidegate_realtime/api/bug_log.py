"""Tells of bugs of ours without filling a disk: one line a second, with how many there were."""

from typing import Final

from tidegate.clock import Clock
from tidegate.observability import get_logger
from tidegate.units import NS_PER_SECOND, Nanoseconds

log: Final = get_logger(__name__)
INTERVAL_NS: Final = Nanoseconds(NS_PER_SECOND)


class BugLog:
    """Counts exceptions that nobody expected, and shows one of them now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown_at_ns: int | None = None
        self._untold = 0

    def report(self, error: Exception, *, request_id: str) -> None:
        """Note one; it is logged with its stack if none was within the last second."""
        now_ns = self._clock.now_ns()
        if self._shown_at_ns is not None and now_ns - self._shown_at_ns < INTERVAL_NS:
            self._untold += 1
            return
        log.error("request_failed", request_id=request_id, untold=self._untold, exc_info=error)
        self._shown_at_ns, self._untold = now_ns, 0
