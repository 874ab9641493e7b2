"""Curves that never fall: more rows never take less time, whatever the samples say."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import le

from tidegate.units import Nanoseconds


def fit_increasing(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to ``values`` in weighted least squares.

    Pool adjacent violators: neighbours in the wrong order are replaced by their weighted mean,
    until none is left (Barlow et al., "Statistical Inference under Order Restrictions", 1972,
    section 1.2). O(n).

    Args:
        values: One number per size, in the order of sizes.
        weights: How much each counts, above 0; as many as values.
    """
    if all(map(le, values, values[1:])):  # C sees that nothing is wrong in a tenth of the time
        return list(values)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] > mean:
            before, its_weight, its_count = pools.pop()
            mean = (before * its_weight + mean * total) / (its_weight + total)
            total += its_weight
            count += its_count
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]


class Curve(dict[int, Nanoseconds]):
    """Straight lines between measured sizes, and a level one from 1 row to the first size.

    To be looked up like a table by rows: ``curve[rows]``. A point is worked out when it is asked
    for the first time: of some hundred, a few are before the curve is drawn again. Whole
    nanoseconds, at least 1; from values that do not fall comes a curve that does not.
    """

    __slots__ = ("_factor", "_knots", "_size_for", "_values")

    def __init__(
        self,
        knots: Sequence[int],
        values: Sequence[float],
        *,
        factor: float = 1.0,
        size_for: Sequence[int] = (),
    ) -> None:
        """Draw through the knots.

        Args:
            knots: Measured sizes, strictly increasing, at least 1.
            values: The value at each of them, in nanoseconds.
            factor: What all values are multiplied by.
            size_for: By rows, the size that they are padded to; empty: they are not.
        """
        super().__init__()
        self._knots = knots
        self._values = values
        self._factor = factor
        self._size_for = size_for

    def __missing__(self, rows: int) -> Nanoseconds:
        """Work one point out.

        Raises:
            KeyError: There are more rows than in the last knot, or less than 1: nothing was
                measured there.
        """
        if rows < 1 or not self._knots or rows > self._knots[-1]:
            raise KeyError(rows)
        size = self._size_for[rows] if self._size_for else rows
        value = Nanoseconds(self._at(size)) if size == rows else self[size]
        self[rows] = value
        return value

    def _at(self, size: int) -> int:
        knots = self._knots
        place = bisect_left(knots, size)
        right, high = knots[place], self._height(place)
        if right == size or place == 0:
            return high
        left, low = knots[place - 1], self._height(place - 1)
        return low + (high - low) * (size - left) // (right - left)

    def _height(self, place: int) -> int:
        return max(1, round(self._values[place] * self._factor))
