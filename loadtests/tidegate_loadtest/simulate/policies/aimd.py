"""Clipper's adaptive batch size (Crankshaw et al., NSDI'17, section 4.3.1)."""

from typing import Final

from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.policies.fifo import Choice, FifoPolicy, Take
from tidegate_realtime.core.commands import Batch

INCREASE_ROWS: Final = 1
"""The paper's "fixed amount"."""
BACK_OFF: Final = 0.9
"""The paper's "reducing the batch size by 10%"."""


class Aimd(FifoPolicy):
    """Grows the limit batch by batch until one takes longer than the objective, then backs off.

    So it finds its size by missing the objective now and again. Only a batch that was full says
    that a larger one would do; the paper, which looks at saturation, need not say so.
    """

    def __init__(
        self, *, executors: int, largest_rows: int | None, objective_ns: Nanoseconds
    ) -> None:
        """Start at one row.

        Args:
            executors: Batches that may run at the same time.
            largest_rows: Most rows that the model takes.
            objective_ns: How long a batch may take; waiting is not looked at.
        """
        super().__init__(executors=executors, largest_rows=largest_rows)
        self._objective_ns = objective_ns
        self.limit_rows = 1

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Take up to the present limit at once."""
        del now_ns
        return Take(self.limit_rows)

    def observe(self, batch: Batch, now_ns: Nanoseconds) -> None:
        """Increase by addition, decrease by multiplication."""
        started_at_ns = batch.pieces[0].request.started_at_ns or 0
        if now_ns - started_at_ns > self._objective_ns:
            self.limit_rows = max(1, int(self.limit_rows * BACK_OFF))
        elif batch.rows >= self.limit_rows:
            self.limit_rows = self.limit(self.limit_rows + INCREASE_ROWS)
