"""Notice that batches became slower or faster for good: a neighbour, a clock, a new driver.

Two one-sided cumulative sums (Page, "Continuous inspection schemes", Biometrika 41, 1954), on the
logarithm of observed over expected time in units of its usual spread, so that one setting serves
a model that varies by 3 % and one that varies by half.

- *Allowance* 1: a lasting shift by less than one usual spread is left to the conformal factor.
- *Threshold* 10: under independent normal noise the mean distance of false alarms is about
  (e^22.3 - 23)/2, 10⁹ batches (Siegmund, "Sequential Analysis", 1985, section 2.6:
  (e^(2k(h + 1.166)) - 1 - 2k(h + 1.166))/(2k²)), half of that for two sides.
- *Clip* 4: one batch moves a sum by at most 3, so that four slow batches in a row are the least
  that is a change; and more than half of the batches since the sum was 0 must be shifted. Stalls,
  which come alone or in twos and threes, are none.

A doubling at 10 % noise is found in 4 batches, 30 % more in about 6.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Final

from tidegate.units import Nanoseconds

ALLOWANCE: Final = 1.0
THRESHOLD: Final = 10.0
CLIP: Final = 4.0
_KEPT: Final = 64
"""Deviations of one excursion that are kept; an excursion that long is a faint change, and its
size is told well enough by the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Batches take another time than they did."""

    ratio: float
    """How many times as long; above 1 means slower."""
    since_ns: Nanoseconds
    """When the first batch of the new kind was seen."""


class _Side:
    """One cumulative sum, for slower (+1) or faster (-1)."""

    __slots__ = ("_deviations", "_sign", "_since_ns", "sum")

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self.reset()

    def reset(self) -> None:
        self.sum = 0.0
        self._since_ns = Nanoseconds(0)
        self._deviations: deque[float] = deque(maxlen=_KEPT)

    def on_batch(self, deviation: float, spread: float, now_ns: Nanoseconds) -> Change | None:
        grown = self.sum + min(CLIP, self._sign * deviation / spread) - ALLOWANCE
        if grown <= 0:
            if self.sum:
                self.reset()
            return None
        if not self.sum:
            self._since_ns = now_ns
        self.sum = grown
        self._deviations.append(deviation)
        if grown <= THRESHOLD:
            return None
        # By the median, so that a stall counts as one batch: most of them must be shifted.
        shift = median(self._deviations)
        since_ns = self._since_ns
        self.reset()
        if self._sign * shift <= ALLOWANCE * spread:
            return None
        return Change(ratio=math.exp(shift), since_ns=since_ns)


class ChangePoint:
    """Watches the deviations of successive batches from what was expected of them."""

    __slots__ = ("_faster", "_slower", "is_quiet")

    def __init__(self) -> None:
        self._slower = _Side(+1)
        self._faster = _Side(-1)
        self.is_quiet = True
        """Whether both sums are 0. While they are, a deviation of at most ``ALLOWANCE`` spreads
        changes nothing, and need not be told."""

    def on_batch(self, deviation: float, spread: float, now_ns: Nanoseconds) -> Change | None:
        """Take in one batch; after a change everything is forgotten.

        Args:
            deviation: log(observed / expected).
            spread: Standard deviation of ``deviation`` in quiet times, above 0; infinite if it is
                not known, and then nothing is a change.
            now_ns: When the batch ended.
        """
        slower, faster = self._slower, self._faster
        change = None
        if slower.sum or deviation > 0:
            change = slower.on_batch(deviation, spread, now_ns)
        if faster.sum or deviation < 0:
            change = faster.on_batch(deviation, spread, now_ns) or change
        if change:
            slower.reset()
            faster.reset()
        self.is_quiet = not (slower.sum or faster.sum)
        return change
