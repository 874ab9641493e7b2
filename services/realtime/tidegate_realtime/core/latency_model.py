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

Cost. To observe a batch is to put it on a list. Samples, factors and curves take it in together
with others, when the curves are drawn again: after 64 batches, and at once when a batch took longer
than promised, the samples of a size have doubled, c must have moved by 3 %, or the machine has
changed. A look-up never draws; it finds a number in a table. Only the change point must see every
batch, and it passes over those that tell it nothing.
"""

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.change_point import ALLOWANCE, Change, ChangePoint
from tidegate_realtime.core.conformal import Calibration
from tidegate_realtime.core.isotonic import Curve, fit_increasing
from tidegate_realtime.core.size_samples import SizeSamples, Summary

_FEW: Final = 32
"""Below, the standard deviation of a size is known to no better than 12 %."""
_REDRAW_AFTER: Final = 64
"""Batches between two drawings at most: a quarter of the samples of a size."""
_DRIFTED: Final = 0.03
"""By how much c may differ from the drawn one: after a change it moves with every batch."""
_MOVED: Final = 0.05
"""A promise that moved by so much of itself is a new ``revision``."""


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
        """Grows whenever ``tail_ns`` of a measured size has moved by 5 %, and with each new size:
        the cap must be computed again."""
        self.drawings = 0
        """Grows whenever an answer may have changed: until then none need be asked for again."""
        self._allowed = None if sizes is None else tuple(sizes)
        self._size_for = [] if sizes is None else _sizes_by_rows(sizes)
        self._measured: list[int] = []
        self._samples: dict[int, SizeSamples] = {}
        self._calibration = Calibration(percentile)
        self._change_point = ChangePoint()
        self._slowdowns = self._speedups = 0
        self._recent: list[tuple[int, int, Nanoseconds]] = []
        """Size, duration and end of each batch that the samples have not taken in yet."""
        self._patience = 1.0
        """Batches until the next drawing, at most."""
        self._until_doubled: dict[int, int] = {}
        """By size, the samples to come until it has twice those of the last drawing."""
        self._means_ns = self._stds_ns = self._tails_ns = Curve((), ())
        self._promised_ns: list[float] = []
        """L of each measured size at the last revision."""
        self._usual_ratios = (0.0, math.inf)
        """Between these a duration, as a ratio to ``_means_ns``, is no sign of a change."""

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
        try:
            return self._means_ns[rows]
        except KeyError:
            raise self._unmeasured(rows) from None

    def std_ns(self, rows: int) -> Nanoseconds:
        """Return c_m · s, by how much single batches differ from their mean.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        try:
            return self._stds_ns[rows]
        except KeyError:
            raise self._unmeasured(rows) from None

    def tail_ns(self, rows: int) -> Nanoseconds:
        """Return L = c · l_q, what the share ``percentile`` of batches keeps: for one batch.

        At least ``mean_ns``, which for low percentiles of skewed times is more.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        try:
            return self._tails_ns[rows]
        except KeyError:
            raise self._unmeasured(rows) from None

    def quantile_ns(self, rows: int, percentile: float) -> Nanoseconds:
        """Return what that share of calls took at most, as the last calls of all sizes show it.

        A first look at a percentile before ``move_to``.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        ratio = self._calibration.quantile_over_mean(percentile) / self._calibration.mean_factor
        return Nanoseconds(math.ceil(self.mean_ns(rows) * ratio))

    def move_to(self, percentile: float, now_ns: Nanoseconds) -> None:
        """Promise another percentile from now on; what was observed is kept.

        Args:
            percentile: Above 0 and below 1.
            now_ns: The present.
        """
        self._take_in()
        self.percentile = percentile
        self._calibration.move_to(percentile)
        self._draw(now_ns)

    def rest_ns(self, rows: int, ran_ns: int) -> Nanoseconds:
        """Return how much longer a call is expected to run that has run ``ran_ns`` already.

        The mean over the samples of its size that took longer; as long as a promise where none
        did, since a call beyond all experience tells nothing of its end.

        Raises:
            ValueError: As for ``mean_ns``.
        """
        samples = self._samples.get(self.size_for(rows))
        factor = self._calibration.mean_factor
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
        self._recent.append((size, took_ns, now_ns))
        until_doubled = self._until_doubled.get(size, 1) - 1
        self._until_doubled[size] = until_doubled
        self._patience -= 1
        change = self._compare(size, took_ns, now_ns) if size <= self.largest_size else None
        if (
            change
            or not until_doubled  # as with the first sample of a size
            or took_ns > self._tails_ns[size]
            or self._patience <= 0
        ):
            self._take_in()
            if change:
                self._apply(change)
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
        """Count the samples and the changes, and tell the two factors that are in force."""
        self._take_in()
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
        """Look for a change; that one batch was as usual is known by two comparisons."""
        ratio = took_ns / self._means_ns[size]
        least, most = self._usual_ratios
        if self._change_point.is_quiet and least <= ratio <= most:
            return None
        calibration = self._calibration
        deviation = math.log(ratio * calibration.mean_factor) - calibration.centre
        return self._change_point.on_batch(deviation, calibration.spread, now_ns)

    def _take_in(self) -> None:
        """Let the samples and the calibration have what was observed since the last drawing.

        Each batch is held against the curves as they were when it ran.
        """
        recent = self._recent
        compared = [(size, took_ns) for size, took_ns, _ in recent if size <= self.largest_size]
        calibration, means_ns, tails_ns = self._calibration, self._means_ns, self._tails_ns
        for_mean, for_tail = calibration.mean_factor, calibration.tail_factor
        calibration.add(
            mean_ratios=[took_ns * for_mean / means_ns[size] for size, took_ns in compared],
            tail_ratios=[took_ns * for_tail / tails_ns[size] for size, took_ns in compared],
        )
        for size, took_ns, ended_at_ns in recent:
            samples = self._samples.get(size)
            if samples is None:
                samples = self._samples[size] = SizeSamples()
                insort(self._measured, size)
            samples.add(took_ns, ended_at_ns)
        recent.clear()

    def _apply(self, change: Change) -> None:
        """Move all sizes by what was seen at some: whatever slows one down slows the others."""
        ratio = change.ratio * self._calibration.mean_factor
        for samples in self._samples.values():
            samples.rescale(ratio, change.since_ns)
        self._calibration.on_change(slower=change.ratio > 1)
        if change.ratio > 1:
            self._slowdowns += 1
        else:
            self._speedups += 1

    def _draw(self, now_ns: Nanoseconds) -> None:
        """Draw the curves from the samples and the factors."""
        self.drawings += 1
        calibration = self._calibration
        calibration.renew()
        samples = [self._samples[size] for size in self._measured]
        summaries = [each.summary(self.percentile) for each in samples]
        weights = [each.weight(now_ns) for each in samples]
        means = fit_increasing([summary.mean for summary in summaries], weights)
        ratio = calibration.tail_over_mean
        tails = [
            summary.tail if summary.tail_known else max(summary.tail, mean * ratio)
            for summary, mean in zip(summaries, means, strict=True)
        ]
        variation = _variation(summaries, weights)
        stds = [
            summary.std if len(each) >= _FEW else max(summary.std, mean * variation)
            for summary, each, mean in zip(summaries, samples, means, strict=True)
        ]
        self.largest_size = self._measured[-1]
        self._means_ns = self._curve(means, calibration.mean_factor)
        self._stds_ns = self._curve(stds, calibration.mean_factor)
        # Where calls stall now and then, the mean lies above lower quantiles. Nothing is promised
        # below it: the batches ahead of a request take it on average, and its own does.
        least = calibration.mean_factor / calibration.tail_factor
        tails = [
            max(tail, least * mean)
            for tail, mean in zip(fit_increasing(tails, weights), means, strict=True)
        ]
        self._tails_ns = self._curve(tails, calibration.tail_factor)
        self._expect(samples)
        self._revise([tail * calibration.tail_factor for tail in tails])

    def _curve(self, values: Sequence[float], factor: float) -> Curve:
        return Curve(tuple(self._measured), values, factor=factor, size_for=self._size_for)

    def _expect(self, samples: Sequence[SizeSamples]) -> None:
        """Say what will need no new drawing."""
        calibration = self._calibration
        self._patience = min(_REDRAW_AFTER, calibration.batches_to_move(_DRIFTED))
        self._until_doubled = dict(zip(self._measured, map(len, samples), strict=True))
        centre, usual = calibration.centre, ALLOWANCE * calibration.spread
        scale = 1 / calibration.mean_factor
        self._usual_ratios = (scale * math.exp(centre - usual), scale * math.exp(centre + usual))

    def _revise(self, promised_ns: list[float]) -> None:
        before_ns = self._promised_ns
        if len(before_ns) != len(promised_ns) or any(
            abs(after - before) >= _MOVED * before
            for before, after in zip(before_ns, promised_ns, strict=True)
        ):
            self._promised_ns = promised_ns
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
