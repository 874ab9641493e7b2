"""How many standard deviations, and how much margin, a promise at a percentile takes."""

from functools import lru_cache
from statistics import NormalDist
from typing import Final

_STANDARD: Final = NormalDist()


@lru_cache(maxsize=16)  # asked after every batch, for one of a few percentiles
def deviations(percentile: float) -> float:
    """Return z: by how many standard deviations a normal sum may exceed its mean."""
    return _STANDARD.inv_cdf(percentile)


def caution(percentile: float, contenders: float = 1.0) -> float:
    """Return the factor for margins if so many requests try for each place.

    One of them gets it, the one to which the forecast is most favourable. That it misses is as
    likely as that any of them would: each must have that chance divided by ``contenders``
    (Bonferroni). Half of what may be missed is left to what moves after the promise: a batch ahead
    that was made smaller, a cap that fell. 1 where the objective is a median or less.
    """
    z = deviations(percentile)
    if z <= 0:
        return 1.0
    missed = (1 - percentile) / 2 / contenders
    return _STANDARD.inv_cdf(1 - missed) / z
