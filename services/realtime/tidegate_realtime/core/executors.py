"""What runs now: the batches on a model's executors, and which of these calls hang.

A call may run long beyond its promise and still end; new requests are refused meanwhile
(``admission``). One that has run 30 times its promise, and 5 s at least, is believed to hang: its
executor is given up, whoever was in it ends, and another executor is asked for. Until that is
there, there are fewer.

A process that stood still itself, as under a debugger or on a paused machine, learns of everything
at once: that a call is overdue, and only then that it has ended. So a call that is found overdue
far too late is given the same time again.
"""

from typing import Final

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.commands import Batch
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.request import IllegalTransitionError

HUNG_TAILS: Final = 30
"""Times its promise that a call may take before it is given up."""
HUNG_LEAST_NS: Final = Nanoseconds(5 * NS_PER_SECOND)
"""What every call may take: small networks are stopped for longer by a busy machine."""
STOOD_STILL_NS: Final = Nanoseconds(100 * NS_PER_MS)
"""A timer that comes later than this tells of the process and not of the call."""


class Executors:
    """How many a model has, how many of them are idle, and what the others run."""

    __slots__ = ("idle", "running", "usable")

    def __init__(self, count: int) -> None:
        self.usable = count
        """Those that are there: fewer than the model has while one is being replaced."""
        self.idle = count
        """May be below 0: when an executor leaves, what it runs ends as it may."""
        self.running: list[Batch] = []

    def start(self, batch: Batch, now_ns: Nanoseconds, tail_ns: int | None) -> None:
        """Let a batch run from now on.

        Args:
            batch: It was just formed.
            now_ns: When.
            tail_ns: What is promised of such a call; ``None``: nothing is, and it never hangs.
        """
        batch.started_at_ns = now_ns
        if tail_ns is not None:
            limit_ns = HUNG_TAILS * tail_ns
            batch.limit_ns = Nanoseconds(limit_ns) if limit_ns > HUNG_LEAST_NS else HUNG_LEAST_NS
            batch.hangs_at_ns = Nanoseconds(now_ns + batch.limit_ns)
        self.running.append(batch)
        self.idle -= 1

    def release(self, batch: Batch) -> None:
        """Take note that a batch runs no more.

        Raises:
            IllegalTransitionError: It was not running.
        """
        try:
            self.running.remove(batch)
        except ValueError:
            raise IllegalTransitionError(
                f"a batch of {batch.rows} rows ended that was not running"
            ) from None
        self.idle += 1

    def change(self, by: int) -> None:
        """Take note that executors have come, or left."""
        self.usable += by
        self.idle += by

    def free_at_ns(self, model: LatencyModel | None, now_ns: Nanoseconds) -> int:
        """Return when the first executor is free, on average, or now."""
        if self.idle > 0 or model is None or not self.running:
            return now_ns
        largest = model.largest_size
        ends = [b.started_at_ns + model.mean_ns(min(b.rows, largest)) for b in self.running]
        return max(now_ns, min(ends))

    def hung(self, now_ns: Nanoseconds) -> list[Batch]:
        """List the calls that are to be given up."""
        hung = []
        for batch in self.running:
            late_ns = now_ns - batch.hangs_at_ns
            if late_ns > STOOD_STILL_NS:
                batch.hangs_at_ns = Nanoseconds(now_ns + batch.limit_ns)
            elif late_ns >= 0:
                hung.append(batch)
        return hung
