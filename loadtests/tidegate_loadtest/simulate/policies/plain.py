"""The three that look at nothing but the queue."""

from typing import Final

from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.policies.fifo import Choice, FifoPolicy, HoldUntil, Take

ONE: Final = Take(1)
EVERYTHING_ROWS: Final = 1 << 31


class OneByOne(FifoPolicy):
    """Batching off: the M/D/1 queue, where the arrivals are Poisson and nothing is noisy."""

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Take the oldest request, alone."""
        del now_ns
        return ONE


class Greedy(FifoPolicy):
    """Whatever waits goes: the model of Inoue's closed form (arXiv 1912.06322)."""

    def __init__(self, *, executors: int, largest_rows: int | None) -> None:
        """Set no limit but the model's own."""
        super().__init__(executors=executors, largest_rows=largest_rows)
        self._all = Take(self.limit(EVERYTHING_ROWS))

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Take all, or as much as the model can."""
        del now_ns
        return self._all


class SizeOrTime(FifoPolicy):
    """A batch goes when it is full or its oldest request has waited long enough.

    What most servers offer, as two knobs: TensorFlow Serving's ``max_batch_size`` and
    ``batch_timeout_micros``, Triton's ``preferred_batch_size`` and
    ``max_queue_delay_microseconds``, TorchServe's ``batchSize`` and ``maxBatchDelay``.
    """

    def __init__(
        self, *, executors: int, largest_rows: int | None, rows: int, wait_ns: Nanoseconds
    ) -> None:
        """Set both knobs.

        Args:
            executors: Batches that may run at the same time.
            largest_rows: Most rows that the model takes.
            rows: When a batch is full.
            wait_ns: The longest that a request is held back while an executor is idle.
        """
        super().__init__(executors=executors, largest_rows=largest_rows)
        self._full = Take(self.limit(rows))
        self._wait_ns = wait_ns

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Go if one of the two is reached."""
        due_at_ns = Nanoseconds(self.waiting[0].arrived_at_ns + self._wait_ns)
        if len(self.waiting) >= self._full.rows or due_at_ns <= now_ns:
            return self._full
        return HoldUntil(due_at_ns)
