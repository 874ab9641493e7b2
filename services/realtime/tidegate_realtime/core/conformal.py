"""How far the last batches were from what the samples foretold, and the factors that mend it.

The quantile of a window of samples is right only while tomorrow is like the window. The factors
compare what was foretold with what came, whatever the distribution, and scale the forecasts: a
promise by ``tail_factor`` (c), a sum of means by ``mean_factor`` (c_m). Split conformal
prediction with a moving window, as in Gibbs and Candès, "Adaptive Conformal Inference Under
Distribution Shift" (arXiv 2106.00170), with the window's quantile in the place of their step.
"""

import math
from typing import Final

from tidegate_realtime.core.sliding_window import SlidingWindow, bound_rank

WINDOW: Final = 200
"""Batches compared. Twice the 100 that a p99 needs at least; some seconds under load."""
GENTLENESS: Final = 0.05
"""Share of the way to the newest quantile that one batch moves c: the quantile of 200 jumps when
one batch enters or leaves, and a cap that follows each jump would never rest."""
CAUTION: Final = 1.5
"""c after a slow-down: how much slower it is was told by a few batches. Also the most that c
rises to: two stalls among 200 batches would make it their size, and shed all for nothing."""
_ENOUGH: Final = 40
"""Comparisons that tell centre and spread to within about a sixth of the spread."""
_LEAST_SPREAD: Final = 0.1
"""Deviations below 10 % are nobody's change point, however steady the model is."""
_LOW, _MIDDLE, _HIGH = 0.159, 0.5, 0.841
"""One standard deviation below and above the middle, if the noise is normal."""


class Calibration:
    """The two factors, and the centre and spread of what was observed.

    A window that is not full counts as filled up with ones: nothing is mended without evidence.
    """

    __slots__ = (
        "_from_top",
        "_mean_ratios",
        "_percentile",
        "_tail_ratios",
        "spread",
        "tail_factor",
    )

    def __init__(self, percentile: float) -> None:
        self._percentile = percentile
        self._from_top = WINDOW - min(WINDOW, bound_rank(percentile, WINDOW)) + 1
        self._tail_ratios = SlidingWindow[float](WINDOW)
        self._mean_ratios = SlidingWindow[float](WINDOW)
        self.tail_factor = 1.0
        """c: the quantile of observed / l_q, approached gently."""
        self.spread = math.inf
        """Standard deviation of log(observed / m) as its middle two thirds show it: stalls,
        which belong to the tail, do not widen it. Infinite until it is known."""

    def on_batch(self, *, tail_ratio: float, mean_ratio: float) -> None:
        """Compare one batch with what was foretold.

        Args:
            tail_ratio: Observed / l_q of its size, above 0.
            mean_ratio: Observed / m of its size, above 0.
        """
        self._tail_ratios.add(tail_ratio)
        self._mean_ratios.add(mean_ratio)
        target = max(1 / CAUTION, min(CAUTION, self._upper(self._tail_ratios)))
        self.tail_factor += GENTLENESS * (target - self.tail_factor)

    def on_change(self, *, slower: bool) -> None:
        """Forget the comparisons with a model that no longer holds.

        Until there are enough new ones the spread counts twice: the size of the change was told by
        a few batches, and that it was told wrong is no new change.
        """
        self._tail_ratios.clear()
        self._mean_ratios.clear()
        self.tail_factor = max(self.tail_factor, CAUTION if slower else 1.0)
        self.spread *= 2

    def measure(self) -> float:
        """Renew ``spread`` and return the centre: the median of log(observed / m), 0 if unknown."""
        ratios = self._mean_ratios.in_order
        count = len(ratios)
        if count < _ENOUGH:
            return 0.0
        width = math.log(ratios[int(_HIGH * count)] / ratios[int(_LOW * count)])
        self.spread = max(_LEAST_SPREAD, width / 2)
        return math.log(ratios[int(_MIDDLE * count)])

    @property
    def mean_factor(self) -> float:
        """c_m: the mean of observed / m."""
        ratios = self._mean_ratios.in_order
        return (sum(ratios) + WINDOW - len(ratios)) / WINDOW

    @property
    def tail_over_mean(self) -> float:
        """The quantile of observed / m over all sizes, for sizes that have too few samples."""
        return self._upper(self._mean_ratios)

    def _upper(self, window: SlidingWindow[float]) -> float:
        values = window.in_order
        value = values[-self._from_top] if len(values) >= self._from_top else 1.0
        return value if len(values) == WINDOW else max(1.0, value)
