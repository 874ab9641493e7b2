"""Execution times of one batch size."""

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import Final, NamedTuple

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.ranks import bound_rank, quantile_rank

KEPT: Final = 256
"""Samples of a size: two and a half times what a p99 needs at least."""
AGED_AFTER_NS: Final = 600 * NS_PER_SECOND
AGED_SHARE: Final = 4
"""Of samples older than ten minutes one in four stays, once there are newer ones; until then each
weighs a quarter against other sizes. Sizes with a batch in two seconds or more have none."""
KEPT_AFTER_CHANGE: Final = 32
"""Samples of the time before a change that stay, scaled: enough to keep the shape of the noise,
few enough that the new ones outnumber them soon."""

Sample = tuple[int, Nanoseconds]  # how long it took, and when that was seen


class Summary(NamedTuple):
    """What the samples of one size say."""

    mean: float
    std: float
    """Of one sample, in nanoseconds; 0 for a single one."""
    tail: float
    """The empirical quantile; the largest sample where it is not ``tail_known``."""
    tail_known: bool
    """Whether there are enough samples to show the quantile."""


class SizeSamples:
    """The last samples with their times, and running sums of them."""

    __slots__ = (
        "_aged",
        "_fresh",
        "_in_order",
        "_passed",
        "_percentile",
        "_squares",
        "_summary",
        "_total",
    )

    def __init__(self) -> None:
        self._aged: deque[Sample] = deque()
        self._fresh: deque[Sample] = deque()
        self._passed = 0  # samples that have aged so far
        self._in_order: list[int] = []
        self._total = self._squares = 0  # of integers, hence exact for ever
        self._summary: Summary | None = None
        self._percentile = 0.0  # of the summary

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, took_ns: int, now_ns: Nanoseconds) -> None:
        """Take in one sample; old ones are thinned out, and at most ``KEPT`` stay."""
        aged_at_ns = now_ns - AGED_AFTER_NS
        while self._fresh and self._fresh[0][1] <= aged_at_ns:
            self._age()
        if len(self._in_order) == KEPT:
            self._forget((self._aged or self._fresh).popleft())
        self._fresh.append((took_ns, now_ns))
        insort(self._in_order, took_ns)
        self._total += took_ns
        self._squares += took_ns * took_ns
        self._summary = None

    def weight(self, now_ns: Nanoseconds) -> float:
        """How much these count against another size.

        Raises:
            IndexError: There is no sample.
        """
        is_aged = self._fresh[-1][1] <= now_ns - AGED_AFTER_NS
        return len(self._in_order) / AGED_SHARE if is_aged else len(self._in_order)

    def rescale(self, ratio: float, since_ns: Nanoseconds) -> None:
        """Multiply what is older than a change by its ratio, and thin it out.

        Every n-th sample in order of size stays, counted from the largest, so that the shape of
        the noise and its extreme survive.
        """
        samples = [*self._aged, *self._fresh]
        before = sorted((sample for sample in samples if sample[1] < since_ns), reverse=True)
        stays = before[:: math.ceil(len(before) / KEPT_AFTER_CHANGE) or 1]
        scaled = [(max(1, round(took * ratio)), at_ns) for took, at_ns in stays]
        self._aged.clear()
        self._fresh = deque(sorted(scaled, key=lambda sample: sample[1]))
        self._fresh += (sample for sample in samples if sample[1] >= since_ns)
        self._in_order = sorted(took for took, _ in self._fresh)
        self._total = sum(self._in_order)
        self._squares = sum(took * took for took in self._in_order)
        self._summary = None

    def rest_ns(self, ran_ns: float) -> float | None:
        """Mean rest of the samples that took longer than ``ran_ns``; ``None`` if none did."""
        longer = self._in_order[bisect_right(self._in_order, ran_ns) :]
        return sum(longer) / len(longer) - ran_ns if longer else None

    def summary(self, percentile: float) -> Summary:
        """Sum up, and remember it until the next sample, or until another percentile is asked for.

        Raises:
            IndexError: There is no sample.
        """
        if self._summary is None or percentile != self._percentile:
            self._percentile = percentile
            count = len(self._in_order)
            spread = count * self._squares - self._total**2
            self._summary = Summary(
                self._total / count,
                math.sqrt(spread / (count * (count - 1))) if count > 1 else 0.0,
                self._in_order[quantile_rank(percentile, count) - 1],
                bound_rank(percentile, count) <= count,
            )
        return self._summary

    def _age(self) -> None:
        """Keep one in four of those that turn old."""
        sample = self._fresh.popleft()
        self._passed += 1
        if self._passed % AGED_SHARE:
            self._forget(sample)
        else:
            self._aged.append(sample)

    def _forget(self, sample: Sample) -> None:
        took_ns = sample[0]
        del self._in_order[bisect_left(self._in_order, took_ns)]
        self._total -= took_ns
        self._squares -= took_ns * took_ns
