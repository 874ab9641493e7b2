"""How fast batches go at present, and what follows for their size.

The one place where the latency model, the objective and the overhead become the numbers that
dispatch and admission count with. They are kept as plain attributes, because both look at them for
every request; ``learn`` renews them after each batch.

Without a latency model nothing is known and nothing is promised: the cap is the one that was set,
and requests leave when their deadline has passed.
"""

from statistics import NormalDist
from typing import Final

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.core.arrival_rate import ArrivalRate
from tidegate_realtime.core.cap import Cap, Infeasible, compute_cap
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.overhead import Overhead

_NEED_VALID_NS: Final = 10 * NS_PER_MS
"""The finest bucket of the arrival rate: asking more often gives the same answer."""


class Pace:
    """Cap, need and expected times of one model version."""

    __slots__ = (
        "_limits",
        "_need_at_ns",
        "_overhead",
        "_revision",
        "cap",
        "cap_rows",
        "executors",
        "guard_ns",
        "margin_ns",
        "model",
        "need_rows",
        "objective_ns",
        "overhead_ns",
        "rate",
        "rows_per_second",
        "sizes",
        "z",
    )

    def __init__(
        self,
        model: LatencyModel | None,
        *,
        objective_ns: Nanoseconds | None,
        overhead: Overhead | None,
        executors: int,
        limits: BatchLimits,
    ) -> None:
        """Take the measure of what is known so far.

        Args:
            model: Of this version; ``None``: run batches of at most ``limits.cap_rows``. With
                nothing observed yet it is the same, until something was.
            objective_ns: What the cap is derived from; needed with a model.
            overhead: Time outside the model call; ``None``: there is none.
            executors: Batches that can run at the same time.
            limits: The fixed cap, and the rows that fit in memory.
        """
        if (model is None) != (objective_ns is None):
            raise ValueError("a latency model and an objective go together: give both or neither")
        self.model = model
        self.objective_ns = objective_ns
        self.executors = executors
        self.rate = ArrivalRate()
        self.rows_per_second = 0.0
        """The present load, at most 10 ms old."""
        self.z = NormalDist().inv_cdf(model.percentile) if model else 0.0
        """How many standard deviations a sum of batches may exceed its mean by."""
        self.cap: Cap | Infeasible | None = None
        """Where the cap comes from; ``None`` if it was set."""
        self.cap_rows = limits.cap_rows
        """Most rows in a batch."""
        self.need_rows = 1
        """b_need: the company that the present load asks for."""
        self.overhead_ns = Nanoseconds(0)
        """o, outside the model call."""
        self.guard_ns = Nanoseconds(0)
        """By how much to wake early."""
        self.margin_ns = Nanoseconds(0)
        """What waits with no more than this until its deadline cannot be answered any more."""
        self.sizes: list[int] = []
        """Allowed sizes up to the cap; empty if they are not known."""
        self._limits = limits
        self._overhead = overhead
        self._revision = -1
        self._need_at_ns = -_NEED_VALID_NS
        self.renew()

    @property
    def is_known(self) -> bool:
        """Whether anything can be promised."""
        return bool(self.sizes)

    def learn(self, rows: int, took_ns: int, now_ns: Nanoseconds) -> None:
        """Learn from a batch that ended."""
        if self.model is not None:
            self.model.observe(rows, took_ns, now_ns)
            self.renew()

    def on_arrival(self, rows: int, now_ns: Nanoseconds) -> None:
        """Count the rows of a request, admitted or not."""
        self.rate.on_arrival(rows, now_ns)
        if now_ns - self._need_at_ns >= _NEED_VALID_NS:
            self._need_at_ns = now_ns
            self.rows_per_second = self.rate.rows_per_second(now_ns)
            self._renew_need()

    def renew(self) -> None:
        """Take the measure of the model again, which somebody else has taught."""
        model = self.model
        if model is None or not model.largest_size:
            return
        if self._overhead is not None:
            self.overhead_ns = self._overhead.overhead_ns
            self.guard_ns = self._overhead.guard_ns
        if model.revision != self._revision:
            self._revision = model.revision
            self._renew_cap(model)
        self.margin_ns = Nanoseconds(max(0, self.overhead_ns + model.mean_ns(1) - 1))

    def _renew_cap(self, model: LatencyModel) -> None:
        assert self.objective_ns is not None
        self.cap = compute_cap(
            model,
            objective_ns=self.objective_ns,
            overhead_ns=self.overhead_ns,
            executors=self.executors,
            memory_rows=self._limits.memory_rows,
        )
        if isinstance(self.cap, Cap):
            self.cap_rows = self.cap.rows
            self.sizes = list(self.cap.sizes)
        else:  # since the start it has become too slow; whoever may wait longer is still answered
            self.cap_rows = model.sizes[0]
            self.sizes = [self.cap_rows]
        self._renew_need()

    def _renew_need(self) -> None:
        if isinstance(self.cap, Cap):
            self.need_rows = self.cap.need_rows(self.rows_per_second)
        else:
            self.need_rows = min(self.cap_rows, 1) if self.cap is None else self.cap_rows
