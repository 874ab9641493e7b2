"""How long a batch takes: what was measured, and what may be promised.

For each size the model keeps its last samples and reads off mean m, standard deviation s and the
q-quantile l_q; nothing parametric is fitted. Over the sizes, m and l_q are forced not to fall
(``isotonic``), sizes in between lie on a straight line, and beyond the largest measured size there
is no answer at all. Two factors (``conformal``) scale the curves to the last batches, and a
change-point test (``change_point``) starts afresh when the machine has become another one.

With few samples. A p99 cannot be read off fewer than 99 samples. Until a size has them, its l_q is
the larger of its largest sample and m times the ratio that the quantile of all sizes has to their
means: what one size has not seen yet, the others have. Its s is likewise at least what the others
vary by. A single sample is enough for a size to count; it weighs one against the others' many.

Padded sizes. With ``sizes`` given, a batch runs at the smallest of them that holds it, so the time
of 5 rows *is* that of 8. Without, every whole number is a size of its own.

Cost. The curves are tables by rows; a look-up is a list access. They are drawn again, never by
a look-up, when a sample is above its promise, when c has moved, while a size is new, and every 32
batches.
"""

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

from tidegate.units import Nanoseconds
from tidegate_realtime.core.change_point import Change, ChangePoint
from tidegate_realtime.core.conformal import Calibration
from tidegate_realtime.core.isotonic import fit_increasing, interpolate
from tidegate_realtime.core.size_samples import KEPT, SizeSamples, Summary

_FEW: Final = 32
"""Below, the standard deviation of a size is known to no better than 12 %."""
_REDRAW_AFTER: Final = 32
"""Batches between two drawings of the tables; one per 8 rows of the largest size if that is more,
so that a batch pays for at most eight rows of each table (measured: about 2 µs)."""
_ROWS_PER_BATCH: Final = 8
_DRIFTED: Final = 0.03
"""By how much c may differ from the drawn one: after a change it moves with every batch."""
_MOVED: Final = 20
"""One 20th, 5 %: a promise that moved by it is a new ``revision``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStatistics:
    """What the model has learned."""

    tail_factor: float
    """c: above 1, batches have been slower than their samples foretold."""
    mean_factor: float
    """c_m: the same for the mean."""
    samples_by_size: Mapping[int, int]
    """Rows → samples held."""
    slowdowns: int
    """Lasting changes for the worse since the start."""
    speedups: int
    """Lasting changes for the better since the start."""


class LatencyModel:
    """Execution times of one model version on one kind of executor and one padded shape."""

    def __init__(self, *, percentile: float, sizes: Sequence[int] | None) -> None:
        """Know nothing yet.

        Args:
            percentile: Share of batches that end within ``tail_ns``, above 0 and below 1.
            sizes: Allowed sizes, strictly increasing; ``None``: every whole number from 1.
        """
        if not 0 < percentile < 1:
            raise ValueError(f"percentile={percentile} must lie between 0 and 1, both excluded")
        if sizes is not None and (
            not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes))
        ):
            raise ValueError(f"sizes={sizes} must increase strictly from 1 or more")
        self.percentile = percentile
        self.largest_size = 0
        """The largest size that was measured; 0 at first. Beyond it nothing is known."""
        self.revision = 0
        """Grows whenever ``tail_ns`` of a measured size has moved by 5 %, and with each larger
        size: the cap must be computed again."""
        self._allowed = None if sizes is None else tuple(sizes)
        self._size_for = [] if sizes is None else _sizes_by_rows(sizes)
        self._measured: list[int] = []
        self._samples: dict[int, SizeSamples] = {}
        self._calibration = Calibration(percentile)
        self._change_point = ChangePoint()
        self._slowdowns = self._speedups = 0
        self._undrawn = 0
        # By rows, from 0 to the largest size; see _draw.
        self._means_ns: list[Nanoseconds] = []
        self._stds_ns: list[Nanoseconds] = []
        self._tails_ns: list[Nanoseconds] = []
        self._tails_at_revision: list[Nanoseconds] = []
        self._drawn_tail_factor = self._drawn_mean_factor = 1.0
        self._centre = 0.0

    @property
    def sizes(self) -> Sequence[int]:
        """Allowed sizes up to the largest measured one, in increasing order."""
        if self._allowed is None:
            return range(1, self.largest_size + 1)
        return [size for size in self._allowed if size <= self.largest_size]

    def size_for(self, rows: int) -> int:
        """Return the smallest allowed size that holds ``rows``: what such a batch is padded to.

        Raises:
            ValueError: No size measured so far holds them.
        """
        if not 0 < rows <= self.largest_size:
            raise self._unmeasured(rows)
        return self._size_for[rows] if self._size_for else rows

    def mean_ns(self, rows: int) -> Nanoseconds:
        """Return c_m · m, what a batch takes on average: for sums of several batches.

        Raises:
            ValueError: There are more rows than in the largest size measured, or less than 1.
        """
        if not 0 < rows <= self.largest_size:
            raise self._unmeasured(rows)
        return self._means_ns[rows]

    def std_ns(self, rows: int) -> Nanoseconds:
        """Return c_m · s, by how much single batches differ from their mean.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        if not 0 < rows <= self.largest_size:
            raise self._unmeasured(rows)
        return self._stds_ns[rows]

    def tail_ns(self, rows: int) -> Nanoseconds:
        """Return L = c · l_q, what the share ``percentile`` of batches keeps: for one batch.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        if not 0 < rows <= self.largest_size:
            raise self._unmeasured(rows)
        return self._tails_ns[rows]

    def rest_ns(self, rows: int, ran_ns: int) -> Nanoseconds:
        """Return how much longer a call is expected to run that has run ``ran_ns`` already.

        The mean over the samples of its size that took longer; as long as a promise where none
        did, since a call beyond all experience tells nothing of its end.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        samples = self._samples.get(self.size_for(rows))
        factor = self._drawn_mean_factor
        rest = samples.rest_ns(ran_ns / factor) if samples else None
        return self._tails_ns[rows] if rest is None else Nanoseconds(math.ceil(rest * factor))

    def observe(self, rows: int, took_ns: int, now_ns: Nanoseconds) -> None:
        """Learn from a batch that ended.

        Args:
            rows: Rows in it, before padding, at least 1.
            took_ns: Duration of the model call.
            now_ns: When it ended.

        Raises:
            ValueError: No allowed size holds so many rows.
        """
        size = self._padded(rows)
        took_ns = max(1, took_ns)  # a clock may be too coarse to see the call; log(0) has no value
        change = self._compare(size, took_ns, now_ns) if size <= self.largest_size else None
        samples = self._samples.get(size)
        if samples is None:
            samples = self._samples[size] = SizeSamples()
            insort(self._measured, size)
        samples.add(took_ns, now_ns)
        seen = len(samples)
        # At 1, 2, 4, … 128 samples: each doubling tells much more. KEPT is a power of 2 as well.
        is_young = seen & (seen - 1) == 0 and seen < KEPT
        if change:
            self._apply(change)
        self._undrawn += 1
        if is_young or change or took_ns > self._tails_ns[size] or self._is_outdated():
            self._draw(now_ns)

    def observe_running(self, rows: int, ran_ns: int, now_ns: Nanoseconds) -> None:
        """Learn from a call that has not ended: it takes at least so long.

        Without effect while the call is within its promise, where a lower bound tells nothing.
        Meant for once a call; when the call ends, ``observe`` it as any other.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        if ran_ns > self.tail_ns(rows):
            self.observe(rows, ran_ns, now_ns)

    def statistics(self) -> LatencyStatistics:
        """Count the samples and the changes, and tell the two factors."""
        return LatencyStatistics(
            tail_factor=self._calibration.tail_factor,
            mean_factor=self._calibration.mean_factor,
            samples_by_size={size: len(self._samples[size]) for size in self._measured},
            slowdowns=self._slowdowns,
            speedups=self._speedups,
        )

    def _padded(self, rows: int) -> int:
        if rows < 1 or (self._allowed and rows > self._allowed[-1]):
            raise ValueError(f"a batch of {rows} rows fits no allowed size: {self._allowed}")
        return self._size_for[rows] if self._size_for else rows

    def _compare(self, size: int, took_ns: int, now_ns: Nanoseconds) -> Change | None:
        """Hold one batch against the tables as they were when it ran."""
        mean_ratio = took_ns * self._drawn_mean_factor / self._means_ns[size]
        tail_ratio = took_ns * self._drawn_tail_factor / self._tails_ns[size]
        self._calibration.on_batch(tail_ratio=tail_ratio, mean_ratio=mean_ratio)
        deviation = math.log(mean_ratio) - self._centre
        return self._change_point.on_batch(deviation, self._calibration.spread, now_ns)

    def _apply(self, change: Change) -> None:
        """Move all sizes by what was seen at some: whatever slows one down slows the others."""
        ratio = change.ratio * self._drawn_mean_factor
        for samples in self._samples.values():
            samples.rescale(ratio, change.since_ns)
        self._calibration.on_change(slower=change.ratio > 1)
        if change.ratio > 1:
            self._slowdowns += 1
        else:
            self._speedups += 1

    def _is_outdated(self) -> bool:
        if self._undrawn >= max(_REDRAW_AFTER, self.largest_size // _ROWS_PER_BATCH):
            return True
        drift = self._calibration.tail_factor / self._drawn_tail_factor
        return not 1 - _DRIFTED < drift < 1 + _DRIFTED

    def _draw(self, now_ns: Nanoseconds) -> None:
        """Draw the tables from the samples and the factors."""
        samples = [self._samples[size] for size in self._measured]
        summaries = [each.summary(self.percentile) for each in samples]
        weights = [each.weight(now_ns) for each in samples]
        means = fit_increasing([summary.mean for summary in summaries], weights)
        ratio = self._calibration.tail_over_mean
        tails = [
            summary.tail if summary.tail_known else max(summary.tail, mean * ratio)
            for summary, mean in zip(summaries, means, strict=True)
        ]
        variation = _variation(summaries, weights)
        stds = [
            summary.std if len(each) >= _FEW else max(summary.std, mean * variation)
            for summary, each, mean in zip(summaries, samples, means, strict=True)
        ]
        self._centre = self._calibration.measure()
        self._drawn_mean_factor = self._calibration.mean_factor
        self._drawn_tail_factor = self._calibration.tail_factor
        self.largest_size = self._measured[-1]
        self._means_ns = self._by_rows(means, self._drawn_mean_factor)
        self._stds_ns = self._by_rows(stds, self._drawn_mean_factor)
        self._tails_ns = self._by_rows(fit_increasing(tails, weights), self._drawn_tail_factor)
        self._undrawn = 0
        self._revise()

    def _by_rows(self, values: Sequence[float], factor: float) -> list[Nanoseconds]:
        curve = interpolate(self._measured, [max(1, round(value * factor)) for value in values])
        if self._size_for:
            curve = [curve[size] for size in self._size_for[: self.largest_size + 1]]
        return cast("list[Nanoseconds]", curve)  # 256 calls of a NewType would cost 13 µs

    def _revise(self) -> None:
        before, after = self._tails_at_revision, self._tails_ns
        if len(before) == len(after) and not any(
            abs(after[size] - before[size]) * _MOVED >= before[size] for size in self._measured
        ):
            return
        self._tails_at_revision = after
        self.revision += 1

    def _unmeasured(self, rows: int) -> ValueError:
        return ValueError(
            f"nothing is known of {rows} rows: sizes 1 to {self.largest_size} were measured. "
            "Ask for no more rows than the largest measured size."
        )


def _sizes_by_rows(sizes: Sequence[int]) -> list[int]:
    """List the smallest size for each number of rows from 0 to the largest size."""
    padded = [sizes[0]]
    for size in sizes:
        padded += [size] * (size + 1 - len(padded))
    return padded


def _variation(summaries: Sequence[Summary], weights: Sequence[float]) -> float:
    """Coefficient of variation of one batch, pooled over the sizes; 0 if none has two samples."""
    freedom = squares = 0.0
    for summary, weight in zip(summaries, weights, strict=True):
        if weight > 1:
            freedom += weight - 1
            squares += (weight - 1) * (summary.std / summary.mean) ** 2
    return math.sqrt(squares / freedom) if freedom else 0.0
