"""How far the last batches were from what the samples foretold, and the factors that mend it.

The quantile of a window of samples is right only while tomorrow is like the window. The factors
compare what was foretold with what came, whatever the distribution, and scale the forecasts: a
promise by ``tail_factor`` (c), a sum of means by ``mean_factor`` (c_m). Split conformal
prediction with a moving window, as in Gibbs and Candès, "Adaptive Conformal Inference Under
Distribution Shift" (arXiv 2106.00170), with the window's quantile in the place of their step.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from tidegate_realtime.core.ranks import bound_rank

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
    All of it is as of the last ``renew``: to sort 200 comparisons for every batch would cost more
    than to choose the batch.
    """

    __slots__ = (
        "_from_top",
        "_mean_ratios",
        "_new",
        "_tail_ratios",
        "_target",
        "centre",
        "mean_factor",
        "spread",
        "tail_factor",
        "tail_over_mean",
    )

    def __init__(self, percentile: float) -> None:
        self._from_top = _from_top(percentile)
        self._tail_ratios: deque[float] = deque(maxlen=WINDOW)
        self._mean_ratios: deque[float] = deque(maxlen=WINDOW)
        self._new = 0  # comparisons since the last ``renew``
        self._target = 1.0
        self.tail_factor = 1.0
        """c: the quantile of observed / l_q, approached gently."""
        self.mean_factor = 1.0
        """c_m: the mean of observed / m."""
        self.tail_over_mean = 1.0
        """The quantile of observed / m over all sizes, for sizes that have too few samples."""
        self.centre = 0.0
        """The median of log(observed / m); 0 until it is known."""
        self.spread = math.inf
        """Standard deviation of log(observed / m) as its middle two thirds show it: stalls,
        which belong to the tail, do not widen it. Infinite until it is known."""

    def add(self, *, tail_ratios: Sequence[float], mean_ratios: Sequence[float]) -> None:
        """Compare batches with what was foretold of them.

        Args:
            tail_ratios: Observed / l_q of its size for each batch, above 0, the oldest first.
            mean_ratios: Observed / m of its size for each of them, above 0.
        """
        self._tail_ratios += tail_ratios
        self._mean_ratios += mean_ratios
        self._new += len(tail_ratios)

    def on_change(self, *, slower: bool) -> None:
        """Forget the comparisons with a model that no longer holds; ``renew`` must follow.

        Until there are enough new ones the spread counts twice: the size of the change was told by
        a few batches, and that it was told wrong is no new change.
        """
        self._tail_ratios.clear()
        self._mean_ratios.clear()
        self._new = 0
        self.tail_factor = max(self.tail_factor, CAUTION if slower else 1.0)
        self.spread *= 2

    def move_to(self, percentile: float) -> None:
        """Hold batches against another quantile, with none compared yet; ``renew`` must follow."""
        self._from_top = _from_top(percentile)
        self._tail_ratios.clear()
        self._new = 0
        self.tail_factor = 1.0

    def renew(self) -> None:
        """Take the measure of the last comparisons, and move c by as many steps as are new."""
        ratios = sorted(self._mean_ratios)
        count = len(ratios)
        self.mean_factor = (sum(ratios) + WINDOW - count) / WINDOW
        self.tail_over_mean = _upper(ratios, self._from_top)
        upper = _upper(sorted(self._tail_ratios), self._from_top)
        self._target = max(1 / CAUTION, min(CAUTION, upper))
        left = (1 - GENTLENESS) ** self._new
        self.tail_factor = self._target + left * (self.tail_factor - self._target)
        self._new = 0
        self.centre = 0.0
        if count >= _ENOUGH:
            width = math.log(ratios[int(_HIGH * count)] / ratios[int(_LOW * count)])
            self.spread = max(_LEAST_SPREAD, width / 2)
            self.centre = math.log(ratios[int(_MIDDLE * count)])

    def quantile_over_mean(self, percentile: float) -> float:
        """Return the quantile of observed / m over all sizes; it sorts, so not for every batch."""
        return _upper(sorted(self._mean_ratios), _from_top(percentile))

    def batches_to_move(self, share: float) -> float:
        """Return after how many batches c will have moved by a share of itself; maybe infinite."""
        gap = abs(self._target - self.tail_factor) / self.tail_factor
        if gap <= share:
            return math.inf
        return math.log(1 - share / gap) / math.log(1 - GENTLENESS)


def _from_top(percentile: float) -> int:
    return WINDOW - min(WINDOW, bound_rank(percentile, WINDOW)) + 1


def _upper(in_order: Sequence[float], from_top: int) -> float:
    value = in_order[-from_top] if len(in_order) >= from_top else 1.0
    return value if len(in_order) == WINDOW else max(1.0, value)
