"""Time outside the model call, which an objective must leave room for."""

from bisect import bisect_left, insort
from collections import deque
from typing import Final

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.ranks import quantile_rank

KEPT: Final = 1_000
"""Ten values above a p99: its quantile is known to about a third of the tail."""
FORGOTTEN_AFTER_NS: Final = 10 * NS_PER_SECOND
"""Ten batches a second are enough for a p99; and whatever made the process stall at its start
is not held against a quiet gateway for the rest of the day."""


class Overhead:
    """Decode, un-batch and encode of a request, and how late the loop calls back.

    Both are quantiles of what was seen in the last ten seconds, at the percentile of the
    objective. One value per batch is enough; adding one costs about 1 µs.
    """

    __slots__ = ("_lags", "_outside", "_percentile")

    def __init__(self, *, percentile: float) -> None:
        self._percentile = percentile
        # A batch has just added a value when o is looked at. The last two stay however old they
        # are, so that on a quiet gateway a stall is not the only thing known.
        self._outside = _Recent(least=2)
        # Lags are seen only when timers fire, and a large one keeps rows from being held, so that
        # none does: were it kept, it would never be learned that it is over.
        self._lags = _Recent(least=0)

    def on_request(self, outside_ns: int, now_ns: Nanoseconds) -> None:
        """Learn what an answered request spent neither waiting nor in the model."""
        self._outside.add(outside_ns, now_ns)
        self._lags.forget(now_ns)

    def on_timer(self, lag_ns: int, now_ns: Nanoseconds) -> None:
        """Learn how much later than asked the loop called back."""
        self._lags.add(lag_ns, now_ns)

    @property
    def overhead_ns(self) -> Nanoseconds:
        """o: what a request spends outside the model call; 0 until one was measured."""
        return self._outside.quantile_ns(self._percentile)

    @property
    def guard_ns(self) -> Nanoseconds:
        """By how much to wake early, since the loop wakes late; 0 if it has not of late."""
        return self._lags.quantile_ns(self._percentile)


class _Recent:
    """Durations by age and by length."""

    __slots__ = ("_by_age", "_in_order", "_least")

    def __init__(self, *, least: int) -> None:
        self._least = least
        self._by_age: deque[tuple[Nanoseconds, int]] = deque()
        self._in_order: list[int] = []

    def add(self, duration_ns: int, now_ns: Nanoseconds) -> None:
        if len(self._by_age) == KEPT:
            self._drop_oldest()
        self._by_age.append((now_ns, duration_ns))
        insort(self._in_order, duration_ns)
        self.forget(now_ns)

    def forget(self, now_ns: Nanoseconds) -> None:
        while len(self._by_age) > self._least and (
            self._by_age[0][0] <= now_ns - FORGOTTEN_AFTER_NS
        ):
            self._drop_oldest()

    def quantile_ns(self, percentile: float) -> Nanoseconds:
        """Return the quantile, but not the largest value, unless it is the only one.

        Of fewer than 100 values the p99 is the largest: a quantile that none of them supports,
        since the largest may be as rare as one in a million. The second largest is exceeded by one
        of n, which is the most that n values can tell.
        """
        count = len(self._in_order)
        if not count:
            return Nanoseconds(0)
        rank = min(quantile_rank(percentile, count), max(1, count - 1))
        return Nanoseconds(self._in_order[rank - 1])

    def _drop_oldest(self) -> None:
        _, duration_ns = self._by_age.popleft()
        del self._in_order[bisect_left(self._in_order, duration_ns)]
