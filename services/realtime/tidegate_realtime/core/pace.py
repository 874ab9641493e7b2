"""How fast batches go at present, and what follows for their size.

The one place where the latency model, the objective and the overhead become the numbers that
dispatch and admission count with. They are kept as plain attributes, because both look at them for
every request; ``learn`` renews them after each batch.

The cap follows the load upwards. ``Cap.rows`` is what a request that just missed a batch can bear:
it waits for that batch and rides in one of its own. Under more load than such batches can carry,
those who just missed one are refused anyway, and what counts is how many are answered: then the
cap is the largest batch that fills with rows which come late enough to be in time. The two are
equal where the load is just what batches of ``Cap.rows`` carry, so there is no step. (Simulated
with one executor, 1.053·b + 5.072 ms, 10 % noise, 25 ms: 470 in place of 418 answers a second in
time at 646 offered, 565 in place of 434 at 1,723.) It falls only while nobody waits, unless a
batch of it would not end in time: the estimate of the knee moves by some rows under load, and each
time everybody in the last places slipped into the next batch.

The company that a batch needs follows the admitted rows, not the offered ones. Who is refused
needs none, and to ask for it has more of them refused: with deadlines of 15 and 50 ms at 0.9 times
the capacity, all of the 15 ms ones (simulated, 0.1438·b + 1.8874 ms: 4,660 in place of 2,951
answers a second in time, 0.08 % missed).

Without a latency model nothing is known and nothing is promised: the cap is the one that was set,
and requests leave when their deadline has passed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import hypot, inf
from statistics import NormalDist
from typing import Final, NamedTuple

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ArrivalRate
from tidegate_realtime.core.cap import LOAD_SHARE, Cap, Infeasible, compute_cap
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.overhead import Overhead

_LOAD_VALID_NS: Final = 10 * NS_PER_MS
"""The finest bucket of the arrival rate: asking more often gives the same answer."""


class _Reach(NamedTuple):
    """What each size is good for, the smallest size first."""

    sizes: Sequence[int] = ()
    """Those that some load may call for."""
    loads: Sequence[float] = ()
    """Rows/s that fill such batches from rows that are still in time for them."""
    capacities: Sequence[float] = ()
    """Rows/s that batches of at most that size can carry."""


class _Admitted:
    """The load of what was admitted."""

    __slots__ = ("_rate", "fresh_rows", "rows_per_second")

    def __init__(self) -> None:
        self._rate = ArrivalRate()
        self.fresh_rows = 0
        self.rows_per_second = 0.0

    def look(self, before_ns: Nanoseconds, now_ns: Nanoseconds) -> None:
        """Count what was admitted since the last look, which was just before."""
        self._rate.on_arrival(self.fresh_rows, before_ns)
        self.fresh_rows = 0
        self.rows_per_second = self._rate.rows_per_second(now_ns)


class Pace:
    """Cap, need and expected times of one model version."""

    __slots__ = (
        "_admitted",
        "_fresh_rows",
        "_limits",
        "_load_at_ns",
        "_overhead",
        "_reach",
        "_revision",
        "cap",
        "cap_rows",
        "caution",
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
        self.z, self.caution = NormalDist().inv_cdf(model.percentile) if model else 0.0, 1.0
        """How many standard deviations a sum of batches may exceed its mean by; and what the
        margin of a promise is multiplied by: more, the more there is to refuse."""
        self.cap: Cap | Infeasible | None = None
        """Where the cap comes from; ``None`` if it was set."""
        self.cap_rows = limits.cap_rows
        """Most rows in a batch at present: ``cap``, or more under a load that is above it."""
        self.need_rows = 1
        """b_need: the company that the load asks for, of which only what was admitted counts."""
        self.overhead_ns = Nanoseconds(0)
        """o, outside the model call."""
        self.guard_ns = Nanoseconds(0)
        """By how much to wake early."""
        self.margin_ns = Nanoseconds(0)
        """What waits with no more than this until its deadline cannot be answered any more."""
        self.sizes: list[int] = []
        """Allowed sizes up to the cap; empty if they are not known."""
        self._reach, self._limits, self._overhead = _Reach(), limits, overhead
        self._revision, self._admitted = -1, _Admitted()
        self._load_at_ns, self._fresh_rows = Nanoseconds(0), 0
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

    def on_arrival(self, rows: int, now_ns: Nanoseconds, *, is_empty: bool) -> bool:
        """Count the rows of a request, admitted or not.

        Args:
            rows: Of the request.
            now_ns: When it arrived.
            is_empty: Whether nothing waits. Only then may the cap fall with the load: whoever
                waits was promised a place in a batch of the present one.

        Returns:
            Whether the cap or the need have changed.
        """
        if now_ns - self._load_at_ns < _LOAD_VALID_NS:
            self._fresh_rows += rows
            return False
        self.rate.on_arrival(self._fresh_rows, self._load_at_ns)
        self.rate.on_arrival(rows, now_ns)
        self._admitted.look(self._load_at_ns, now_ns)
        self._fresh_rows, self._load_at_ns = 0, now_ns
        self.rows_per_second = self.rate.rows_per_second(now_ns)
        return self._follow_load(may_fall=is_empty)

    def on_accepted(self, rows: int) -> None:
        """Count the rows of a request that was admitted: they are the ones that need company."""
        self._admitted.fresh_rows += rows

    def renew(self) -> None:
        """Take the measure of the model again, which somebody else has taught."""
        model = self.model
        if model is None or not model.largest_size:
            return
        if self._overhead is not None:
            self.overhead_ns = self._bearable_ns(model, self._overhead.overhead_ns)
            self.guard_ns = self._overhead.guard_ns
        if model.revision != self._revision:
            self._revision = model.revision
            self._renew_cap(model)
        self.margin_ns = Nanoseconds(self.overhead_ns + model.mean_ns(1))

    def _bearable_ns(self, model: LatencyModel, overhead_ns: int) -> Nanoseconds:
        """Limit o to half of what the objective leaves beside one row.

        One stall of the whole process, such as a machine that was out of cores for half a second,
        is the p99 of the next hundred batches. More than the objective has room for, it would have
        everybody refused, and with nobody answered it would not be learned that it is over.
        """
        assert self.objective_ns is not None
        room_ns = max(0, self.objective_ns - model.tail_ns(1))
        return Nanoseconds(min(overhead_ns, room_ns // 2))

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
            sizes = self._possible_sizes(model, self.cap)
        else:  # since the start it has become too slow; whoever may wait longer is still answered
            sizes = [model.sizes[0]]
        busy = LOAD_SHARE * self.executors * NS_PER_SECOND
        throughputs = (busy * size / model.mean_ns(size) for size in sizes)
        self._reach = _Reach(
            sizes,
            [self._filling_load(model, size) for size in sizes],
            list(accumulate(throughputs, max)),
        )
        most_ns = self.objective_ns - self.overhead_ns
        is_late = self.cap_rows > model.largest_size or model.tail_ns(self.cap_rows) >= most_ns
        self._follow_load(may_fall=is_late)  # otherwise when nobody waits who was promised it

    def _possible_sizes(self, model: LatencyModel, cap: Cap) -> list[int]:
        """List the sizes that some load may call for: those that pay, fit and end in time."""
        assert self.objective_ns is not None
        most_rows = max(cap.rows, min(cap.knee_rows, cap.memory_rows))
        most_ns = self.objective_ns - self.overhead_ns
        return [
            size
            for size in model.sizes
            if size <= cap.rows or (size <= most_rows and model.tail_ns(size) < most_ns)
        ]

    def _filling_load(self, model: LatencyModel, size: int) -> float:
        """Return the rows/s that fill such a batch from rows that are still in time for it.

        These come in the time that the objective leaves beside the call itself.
        """
        assert self.objective_ns is not None
        mean_ns = model.mean_ns(size)
        margin_ns = hypot(self.z * model.std_ns(size), model.tail_ns(size) - mean_ns)
        left_ns = self.objective_ns - self.overhead_ns - mean_ns - margin_ns
        return self.executors * size * NS_PER_SECOND / left_ns if left_ns > 0 else inf

    def _follow_load(self, *, may_fall: bool) -> bool:
        sizes, loads, capacities = self._reach
        if not sizes:
            return False
        self.caution = self._caution(self.rows_per_second * LOAD_SHARE / capacities[-1])
        before, load = (self.cap_rows, self.need_rows), self.rows_per_second
        least_rows = self.cap.rows if isinstance(self.cap, Cap) else sizes[0]
        filled = bisect_right(loads, load)
        cap_rows = max(least_rows, sizes[filled - 1] if filled else 0)
        if may_fall or cap_rows > self.cap_rows or not self.sizes:
            self.cap_rows = cap_rows
            self.sizes = list(sizes[: bisect_right(sizes, cap_rows)])
        enough = bisect_left(capacities, self._admitted.rows_per_second)
        self.need_rows = min(sizes[enough], self.cap_rows) if enough < len(sizes) else self.cap_rows
        return before != (self.cap_rows, self.need_rows)

    def _caution(self, contenders: float) -> float:
        """Return the factor for margins if so many requests try for each place.

        One of them gets it, the one to which the forecast is most favourable. That it misses is
        as likely as that any of them would: each must have that chance divided by ``contenders``
        (Bonferroni). Half of what may be missed is left to what moves after the promise: a batch
        ahead that was made smaller, a cap that fell.
        """
        assert self.model is not None
        if self.z <= 0:  # the objective is a median or less
            return 1.0
        missed = (1 - self.model.percentile) / 2 / max(contenders, 1.0)
        return NormalDist().inv_cdf(1 - missed) / self.z
