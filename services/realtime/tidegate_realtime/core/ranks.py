"""Which of some values in increasing order stands for their quantile."""

import math
from typing import Final

_ROUNDING: Final = 1e-9
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
