"""A distribution, counted in buckets."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Self


class Histogram:
    """Counts by upper edge, inclusive; the last count is of what lies above all edges."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.total = 0.0

    @classmethod
    def of(cls, edges: Sequence[float], counts: Sequence[int], total: float) -> Self:
        """Take what somebody else has counted in the same way."""
        histogram = cls(edges)
        histogram.counts, histogram.total = list(counts), total
        return histogram

    def observe(self, value: float, *, times: int = 1) -> None:
        """Count a value, once or as often as it was seen."""
        self.counts[bisect_left(self.edges, value)] += times
        self.total += value * times
