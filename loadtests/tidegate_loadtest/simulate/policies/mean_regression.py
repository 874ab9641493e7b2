"""A line through the mean durations, as one popular framework batches (BentoML's dispatcher).

Its rules as they are, but for its clock: it looks every millisecond, and here it looks when
something happens. It drops the oldest request when waiting and the mean duration of everything
that waits reach the objective; and it holds a batch back while that costs its members less than
the wait that has been usual.
"""

from collections import deque
from typing import Final

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_loadtest.simulate.policies.fifo import Choice, Drop, FifoPolicy, HoldUntil, Take
from tidegate_realtime.core.commands import Batch

KEPT: Final = 50
"""Samples that the line is fitted to."""
LARGEST_ROWS: Final = 100
"""Its default limit of a batch."""
TICK_NS: Final = NS_PER_MS
DECAY: Final = 0.95


class MeanRegression(FifoPolicy):
    """Predicts ``a * rows + b`` by least squares and trusts the mean."""

    def __init__(
        self, *, executors: int, largest_rows: int | None, objective_ns: Nanoseconds
    ) -> None:
        """Start without a sample.

        Args:
            executors: Batches that may run at the same time.
            largest_rows: Most rows that the model takes.
            objective_ns: From arrival to answer.
        """
        super().__init__(executors=executors, largest_rows=largest_rows)
        self._objective_ns = objective_ns
        self._most = self.limit(LARGEST_ROWS)
        self._samples: deque[tuple[int, int, int]] = deque(maxlen=KEPT)
        """Rows, duration and wait of the oldest member."""
        self._a_ns = self._b_ns = self._usual_wait_ns = 0.0

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Drop, hold or go."""
        count = len(self.waiting)
        oldest_ns = now_ns - self.waiting[0].arrived_at_ns
        newest_ns = now_ns - self.waiting[-1].arrived_at_ns
        if count > 1 and oldest_ns + self._a_ns * count + self._b_ns >= self._objective_ns:
            return Drop(1)
        held_ns = count * (newest_ns + TICK_NS + self._a_ns)
        if count < self._most and held_ns <= self._usual_wait_ns * DECAY:
            return HoldUntil(Nanoseconds(now_ns + TICK_NS))
        return Take(self._most)

    def observe(self, batch: Batch, now_ns: Nanoseconds) -> None:
        """Fit the line again."""
        oldest = batch.pieces[0].request
        started_at_ns = oldest.started_at_ns or 0
        wait_ns = started_at_ns - oldest.arrived_at_ns
        self._samples.append((batch.rows, now_ns - started_at_ns, wait_ns))
        count = len(self._samples)
        mean_rows = sum(rows for rows, _, _ in self._samples) / count
        mean_ns = sum(took_ns for _, took_ns, _ in self._samples) / count
        spread = sum((rows - mean_rows) ** 2 for rows, _, _ in self._samples)
        common = sum((rows - mean_rows) * took_ns for rows, took_ns, _ in self._samples)
        self._a_ns = max(0.0, common / spread) if spread else 0.0
        self._b_ns = max(0.0, mean_ns - self._a_ns * mean_rows)
        self._usual_wait_ns = sum(wait for _, _, wait in self._samples) / count
