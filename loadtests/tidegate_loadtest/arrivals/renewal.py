"""Gaps between arrivals: independent, with mean 1 and a chosen coefficient of variation."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.errors import SettingError

Positions: TypeAlias = npt.NDArray[np.float64]
_BLOCK = 65_536
"""Gaps drawn at once: large enough that numpy's cost a call is nothing, and a stretch that needs
fewer wastes half a megabyte for an instant."""

CV_RANGE: Final = (0.01, 100.0)
"""A clock, nearly, and bursts of thousands: outside, Gamma's floats end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A renewal process of rate 1: its clock counts expected arrivals, not seconds.

    Gamma gaps of shape 1/cv²: cv 1 is the Poisson process, below 1 is smoother, above is
    burstier. A rate, constant or not, is put on it by a change of time (``curve``).
    """

    cv: float = 1.0
    """Standard deviation of the gaps over their mean, above 0."""

    def __post_init__(self) -> None:
        """Refuse gaps that cannot be drawn."""
        lowest, highest = CV_RANGE
        if not lowest <= self.cv <= highest:
            raise SettingError(f"cv={self.cv}: it must lie between {lowest} and {highest}.")

    def first(self, requests: int, *, seed: int) -> Positions:
        """Draw the first arrivals: positions of shape ``(requests,)``, ascending."""
        return np.cumsum(self._gaps(np.random.default_rng(seed), requests))

    def until(self, end: float, *, seed: int) -> Positions:
        """Draw every arrival before ``end``: about as many as ``end`` says.

        The first ones are those that ``first`` draws from the same seed, up to rounding.
        """
        random = np.random.default_rng(seed)
        blocks = []
        reached = 0.0
        while reached < end:
            block = reached + np.cumsum(self._gaps(random, _BLOCK))
            reached = float(block[-1])
            blocks.append(block)
        drawn = np.concatenate(blocks) if blocks else np.empty(0)
        return drawn[: np.searchsorted(drawn, end)]

    def _gaps(self, random: np.random.Generator, count: int) -> Positions:
        if self.cv == 1:
            return random.standard_exponential(count)
        shape = self.cv**-2
        return random.standard_gamma(shape, count) / shape


POISSON: Final = Renewal()
"""Independent arrivals: gaps without memory."""
