"""Curves that never fall: more rows never take less time, whatever the samples say."""

from collections.abc import Sequence


def fit_increasing(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to ``values`` in weighted least squares.

    Pool adjacent violators: neighbours in the wrong order are replaced by their weighted mean,
    until none is left (Barlow et al., "Statistical Inference under Order Restrictions", 1972,
    section 1.2). O(n).

    Args:
        values: One number per size, in the order of sizes.
        weights: How much each counts, above 0; as many as values.
    """
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


def interpolate(knots: Sequence[int], values: Sequence[int]) -> list[int]:
    """Draw straight lines between measured sizes, and a level one from 0 to the first.

    In integers, so that values which do not fall give a curve that does not.

    Args:
        knots: Measured sizes, strictly increasing, at least 1.
        values: The value at each of them.

    Returns:
        The value at each whole number from 0 to the last knot. Not one beyond: there nothing was
        measured.
    """
    left, low = knots[0], values[0]
    curve = [low] * (left + 1)
    for right, high in zip(knots[1:], values[1:], strict=True):
        gap, rise = right - left, high - low
        curve += [low + rise * step // gap for step in range(1, gap + 1)]
        left, low = right, high
    return curve
