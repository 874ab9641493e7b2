"""Time outside the model call, which an objective must leave room for."""

from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.sliding_window import SlidingWindow

_KEPT: Final = 1_000
"""Ten values above a p99: its quantile is known to about a third of the tail."""


class Overhead:
    """Decode, un-batch and encode of a request, and how late the loop calls back.

    Both are quantiles of the last 1,000 values, at the percentile of the objective. One value per
    batch is enough; adding one costs about 1 µs.
    """

    __slots__ = ("_lags", "_outside", "_percentile")

    def __init__(self, *, percentile: float) -> None:
        self._percentile = percentile
        self._outside = SlidingWindow[int](_KEPT)
        self._lags = SlidingWindow[int](_KEPT)

    def on_request(self, outside_ns: int) -> None:
        """Learn what an answered request spent neither waiting nor in the model."""
        self._outside.add(outside_ns)

    def on_timer(self, lag_ns: int) -> None:
        """Learn how much later than asked the loop called back."""
        self._lags.add(lag_ns)

    @property
    def overhead_ns(self) -> Nanoseconds:
        """o: what a request spends outside the model call; 0 until one was measured."""
        return Nanoseconds(self._outside.quantile(self._percentile) if self._outside else 0)

    @property
    def guard_ns(self) -> Nanoseconds:
        """By how much to wake early, since the loop wakes late; 0 until it was measured."""
        return Nanoseconds(self._lags.quantile(self._percentile) if self._lags else 0)
