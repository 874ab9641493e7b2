"""How right promises were: what answered requests took, by what was foretold when they came.

A histogram of ratios. One of its edges is 1, so that the share of answers that came by the
foretold instant, which should be the promised percentile, is read off without a second count.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.request import Request

RATIO_EDGES: Final = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0)
"""Upper edges, inclusive; a last count is of what lies above them all."""
_KEPT: Final = RATIO_EDGES.index(1.0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastStatistics:
    """Of all requests that were answered, and admitted by a forecast."""

    counts: Sequence[int]
    """By ``RATIO_EDGES``, and those above."""
    total: float
    """The sum of all ratios."""

    @property
    def answered(self) -> int:
        """How many there were."""
        return sum(self.counts)

    @property
    def coverage(self) -> float | None:
        """Share of them that were answered by the foretold instant; ``None`` without any."""
        return sum(self.counts[:_KEPT]) / self.answered if self.answered else None


class Forecasts:
    """Counts how right promises were."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(RATIO_EDGES) + 1)
        self._total = 0.0

    def on_answered(self, requests: Iterable[Request], now_ns: Nanoseconds) -> None:
        """Compare, for requests that are answered now; those without a forecast are left out."""
        counts, total = self._counts, self._total
        for request in requests:
            predicted_at_ns = request.predicted_at_ns
            if predicted_at_ns is not None:
                arrived_at_ns = request.arrived_at_ns
                foretold_ns = predicted_at_ns - arrived_at_ns
                ratio = (now_ns - arrived_at_ns) / (foretold_ns if foretold_ns > 0 else 1)
                counts[bisect_left(RATIO_EDGES, ratio)] += 1
                total += ratio
        self._total = total

    def statistics(self) -> ForecastStatistics:
        """Return the counts so far."""
        return ForecastStatistics(counts=tuple(self._counts), total=self._total)
