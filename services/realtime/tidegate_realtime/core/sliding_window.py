"""The last values of something, kept in order of arrival and in order of size."""

import math
from bisect import bisect_left, insort
from collections import deque
from typing import Generic, TypeVar

Number = TypeVar("Number", int, float)

_ROUNDING = 1e-9
"""0.99 · 200 must not become 199 by the last bit of a float."""


def quantile_rank(percentile: float, count: int) -> int:
    """Which of ``count`` values in increasing order, from 1, is their quantile: ⌈q·n⌉."""
    return math.ceil(percentile * count - _ROUNDING)


def bound_rank(percentile: float, count: int) -> int:
    """Which of ``count`` values, from 1, the next one does not exceed with that probability.

    ⌈q·(n + 1)⌉: the split conformal rank (Vovk, Gammerman and Shafer, "Algorithmic Learning in a
    Random World", 2005). It is above ``count`` where fewer than q/(1 - q) values, 99 for a p99,
    cannot show the quantile.
    """
    return math.ceil(percentile * (count + 1) - _ROUNDING)


class SlidingWindow(Generic[Number]):
    """The last ``length`` values. Adding one costs two bisections of a short list."""

    __slots__ = ("_by_age", "in_order", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.in_order: list[Number] = []
        """The values, smallest first; to be read only."""
        self._by_age: deque[Number] = deque()

    def __len__(self) -> int:
        return len(self.in_order)

    def add(self, value: Number) -> None:
        """Take in a value and let go of the oldest one above ``length``."""
        if len(self._by_age) == self.length:
            del self.in_order[bisect_left(self.in_order, self._by_age.popleft())]
        self._by_age.append(value)
        insort(self.in_order, value)

    def clear(self) -> None:
        """Let go of all values."""
        self._by_age.clear()
        self.in_order.clear()

    def quantile(self, percentile: float) -> Number:
        """Return the empirical quantile; of few values that is the largest.

        Raises:
            IndexError: There is no value.
        """
        return self.in_order[quantile_rank(percentile, len(self.in_order)) - 1]
