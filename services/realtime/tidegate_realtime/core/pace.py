"""How fast batches go at present, and what follows for their size.

The one place where the latency model, the objective and the overhead become the numbers that
dispatch and admission count with. They are kept as plain attributes, because both look at them for
every request; ``learn`` renews them after each batch.

Two sizes bound a batch. ``calm_rows`` is what a request that just missed one can bear: it waits for
that batch and rides in one of its own. Whoever has more time than the objective, and bulk traffic,
fills a batch no further. ``cap_rows`` is the most that one call can hold and still end in time:
rows in a hurry, which nobody can answer later, may fill a batch up to it. Under more load than
batches of ``calm_rows`` can carry, those who just missed one are lost in any case, and what counts
is how many are answered. (Simulated with one executor, 1.053·b + 5.072 ms, 10 % noise, 25 ms,
together with ``standby``: 327, 484 and 610 answers a second in time at 328, 546 and 1,456 offered;
with ``calm_rows`` as the only bound 314, 404 and 434.)

``need_rows`` is the company that a batch must be able to take when somebody is promised a place in
it, so that it does not become small for his sake. It is what carries the load, but no more than the
load fills: rows that come late enough to be in time, and two standard deviations more (of Poisson
arrivals), for a place that was promised cannot be taken back when more come.

Without a latency model nothing is known and nothing is promised: the cap is the one that was set,
and requests leave when their deadline has passed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import hypot, inf, sqrt
from typing import Final, NamedTuple, TypeAlias

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ArrivalRate
from tidegate_realtime.core.cap import Cap, Infeasible, compute_cap
from tidegate_realtime.core.confidence import caution, deviations
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.overhead import Overhead
from tidegate_realtime.core.relenting import Relenting

LOAD_SHARE: Final = 0.85
"""Of an executor's capacity that arrivals may use before batches must grow: at full use the queue
would have no end."""
_LOAD_VALID_NS: Final = 10 * NS_PER_MS
"""The finest bucket of the arrival rate: asking more often gives the same answer."""

Times: TypeAlias = tuple[int, int]
"""m(b) and L(b) - m(b) of a batch, in nanoseconds."""


class _Reach(NamedTuple):
    """What each size is good for, the smallest size first."""

    sizes: Sequence[int] = ()
    """Those that some load may call for."""
    capacities: Sequence[float] = ()
    """Rows/s that batches of at most that size can carry."""


class _Known(NamedTuple):
    """What the model was asked for since it was drawn last."""

    drawings: int
    """How often it had been."""
    times: dict[int, Times]
    """By rows."""
    fillings: dict[int, tuple[float, int, float]]
    """By size: the rows that fill it, its mean and its margin, for ``_filling_load``."""


class Pace:
    """Cap, need and expected times of one model version."""

    __slots__ = (
        "_fresh_rows",
        "_known",
        "_least_caution",
        "_limits",
        "_load_at_ns",
        "_overhead",
        "_reach",
        "_relenting",
        "_revision",
        "calm_rows",
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
        self.model, self.objective_ns = model, objective_ns
        self.executors = executors
        self.rate = ArrivalRate()
        self.rows_per_second = 0.0
        """The present load, at most 10 ms old."""
        self.z, self.caution = deviations(model.percentile) if model else 0.0, 1.0
        """How many standard deviations a sum of batches may exceed its mean by; and what the
        margin of a promise is multiplied by: more, the more there is to refuse."""
        self.cap: Cap | Infeasible | None = None
        """Where the cap comes from; ``None`` if it was set."""
        self.cap_rows = self.calm_rows = limits.cap_rows
        """Most rows in a batch; and most of which not all are in a hurry."""
        self.need_rows = 1
        """b_need: the company that the load asks for."""
        self.overhead_ns = self.guard_ns = Nanoseconds(0)
        """o, outside the model call; and by how much to wake early."""
        self.margin_ns = Nanoseconds(0)
        """What waits with no more than this until its deadline cannot be answered any more."""
        self.sizes: list[int] = []
        """Allowed sizes up to the cap; empty if they are not known."""
        self._least_caution = caution(model.percentile) if model else 1.0
        self._known = _Known(-1, {}, {})
        self._reach, self._limits, self._overhead = _Reach(), limits, overhead
        self._relenting = Relenting(model.percentile if model else 0.0)
        self._revision = -1
        self._load_at_ns, self._fresh_rows = Nanoseconds(0), 0
        self.renew()

    @property
    def is_known(self) -> bool:
        """Whether anything can be promised."""
        return bool(self.sizes)

    def learn(self, rows: int, took_ns: int, now_ns: Nanoseconds, *, request_rows: int = 1) -> None:
        """Learn from a batch that ended; ``request_rows``: what a request usually has."""
        if self.model is not None:
            self.model.observe(rows, took_ns, now_ns)
            self.renew()
            self._relent(self.model, request_rows, now_ns)

    def on_arrival(self, rows: int, now_ns: Nanoseconds) -> bool:
        """Count the rows of a request, admitted or not; return whether promises change by it."""
        if now_ns - self._load_at_ns < _LOAD_VALID_NS:
            self._fresh_rows += rows
            return False
        self.rate.on_arrival(self._fresh_rows, self._load_at_ns)
        self.rate.on_arrival(rows, now_ns)
        self._fresh_rows, self._load_at_ns = 0, now_ns
        self.rows_per_second = self.rate.rows_per_second(now_ns)
        return self._follow_load()

    def _relent(self, model: LatencyModel, rows: int, now_ns: Nanoseconds) -> None:
        """Promise as surely as can be kept, if the objective's percentile cannot."""
        assert self.objective_ns is not None
        if self._relenting.review(model, rows, self.objective_ns - self.overhead_ns, now_ns):
            self.z, self._least_caution = deviations(model.percentile), caution(model.percentile)
            self.renew()
            self._follow_load()  # for ``caution``, also where no promise has moved by much

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

    def known_times(self) -> dict[int, Times]:
        """Return the times by rows that ``times`` was asked for; good until the model learns.

        Admission asks for the same ones over and over: so it asks once.
        """
        model = self.model
        assert model is not None
        if model.drawings != self._known.drawings:
            self._known = _Known(model.drawings, {}, {})
        return self._known.times

    def times(self, rows: int) -> Times:
        """Ask the model for the times of a batch.

        Raises:
            ValueError: Nothing is known of so many rows.
        """
        known, model = self.known_times(), self.model
        assert model is not None
        mean_ns = model.mean_ns(rows)
        known[rows] = found = mean_ns, model.tail_ns(rows) - mean_ns
        return found

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
            self.cap_rows, self.calm_rows = self.cap.rows, self.cap.calm_rows
        else:  # since the start it has become too slow; whoever may wait longer is still answered
            self.cap_rows = self.calm_rows = model.sizes[0]
        self.sizes = [size for size in model.sizes if size <= self.cap_rows]
        busy = LOAD_SHARE * self.executors * NS_PER_SECOND
        throughputs = (busy * size / model.mean_ns(size) for size in self.sizes)
        self._reach = _Reach(self.sizes, list(accumulate(throughputs, max)))
        self._follow_load()

    def _filling_load(self, size: int) -> float:
        """Return the rows/s that fill such a batch with rows that are still in time for it.

        These come in the time that the objective leaves beside the call itself. As many are
        enough that two standard deviations more are the size: n + 2·√n = size.
        """
        assert self.objective_ns is not None
        rows, mean_ns, margin_ns = self._known.fillings.get(size) or self._filling(size)
        left_ns = self.objective_ns - self.overhead_ns - mean_ns - margin_ns
        return self.executors * rows * NS_PER_SECOND / left_ns if left_ns > 0 else inf

    def _filling(self, size: int) -> tuple[float, int, float]:
        assert self.model is not None
        mean_ns, spread_ns = self.times(size)
        margin_ns = hypot(self.z * self.model.std_ns(size), spread_ns)
        filling = size + 2 - 2 * sqrt(size + 1), mean_ns, margin_ns
        self._known.fillings[size] = filling
        return filling

    def _follow_load(self) -> bool:
        sizes, capacities = self._reach
        if not sizes:
            return False
        self.known_times()  # those of ``_filling_load`` too
        before, load = (self.need_rows, self.caution), self.rows_per_second
        contenders = load * LOAD_SHARE / capacities[-1]
        self.caution = self._least_caution
        if contenders > 1 and self.model is not None:
            self.caution = caution(self.model.percentile, contenders)
        enough = bisect_left(capacities, load)
        carrying_rows = sizes[enough] if enough < len(sizes) else self.cap_rows
        # It rises with the size. To work it out for every size, where each number of rows is one,
        # would stop the loop for half a millisecond whenever the model is drawn again.
        filled = bisect_right(sizes, load, key=self._filling_load)
        filled_rows = sizes[filled - 1] if filled else 1
        self.need_rows = min(carrying_rows, max(filled_rows, self.calm_rows))
        return before != (self.need_rows, self.caution)
