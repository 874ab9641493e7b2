"""What one model wants of executors that it shares with others, and how long it occupies them."""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.admission import STUCK, Admission
from tidegate_realtime.core.bisection import Bisection
from tidegate_realtime.core.executors import Executors
from tidegate_realtime.core.formation import Formation
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import FOREVER, Free


class SharingModel:
    """The batcher of one model, as ``turns`` sees it."""

    __slots__ = ("_admission", "_bisection", "_executors", "_formation", "_lanes", "_pace")

    def __init__(
        self,
        lanes: Lanes,
        pace: Pace,
        executors: Executors,
        bisection: Bisection,
        formation: Formation,
        admission: Admission,
    ) -> None:
        self._lanes = lanes
        self._pace = pace
        self._executors = executors
        self._bisection = bisection
        self._formation = formation
        self._admission = admission

    def urgency_ns(self, now_ns: Nanoseconds) -> int | None:
        """Return when its next batch must begin at the latest; ``None``: it would run nothing."""
        retries = self._bisection.waiting
        if self._executors.idle <= 0 or not (self._wants_rows(now_ns) or retries):
            return None
        deadline_ns: int | None = self._lanes.earliest_deadline_at_ns()
        for batch in retries:
            first_ns = batch.pieces[0].request.deadline_at_ns
            deadline_ns = first_ns if deadline_ns is None else min(deadline_ns, first_ns)
        if deadline_ns is None:
            return FOREVER  # what waits is late already, and may not be shed
        model = self._pace.model
        if model is None or not self._pace.sizes:
            return deadline_ns
        rows = min(max(1, self._lanes.rows), self._pace.cap_rows)
        return deadline_ns - model.tail_ns(rows)

    def due_ns(self, by_ns: int) -> int:
        """Return the executor time of what waits and has a deadline until then."""
        model, cap_rows = self._pace.model, self._pace.cap_rows
        if model is None or not self._pace.sizes:
            return 0
        batches, rest = divmod(self._lanes.rows_until(by_ns), cap_rows)
        time_ns = batches * model.mean_ns(cap_rows) + (model.mean_ns(rest) if rest else 0)
        for batch in self._bisection.waiting:
            time_ns += model.mean_ns(min(batch.rows, model.largest_size))
        return time_ns

    def busy(self, now_ns: Nanoseconds) -> list[Free]:
        """Foretell when each of its calls ends, without those that seem to hang."""
        model, running = self._pace.model, self._executors.running
        if model is None or not self._pace.sizes:
            return [(now_ns, 0.0) for _ in running]
        ends: list[Free] = []
        for batch in running:
            rows, ran_ns = min(batch.rows, model.largest_size), now_ns - batch.started_at_ns
            if ran_ns <= max(STUCK * model.tail_ns(rows), (self._pace.objective_ns or 0) // 4):
                mean_ns = model.mean_ns(rows)
                left_ns = mean_ns - ran_ns if ran_ns < mean_ns else model.rest_ns(rows, ran_ns)
                ends.append((now_ns + left_ns, model.std_ns(rows) ** 2))
        return ends

    def forget(self) -> None:
        """Foretell anew: another model has taken an executor, or left one."""
        self._admission.forget()

    def _wants_rows(self, now_ns: Nanoseconds) -> bool:
        held_until_ns = self._formation.holding.until_ns
        return self._lanes.rows > 0 and (held_until_ns is None or held_until_ns <= now_ns)
