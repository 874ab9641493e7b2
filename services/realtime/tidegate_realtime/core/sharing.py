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
        return deadline_ns - self.call_ns()

    def call_ns(self) -> int:
        """Return L(b) of its next batch: how much earlier than its deadline it must begin."""
        model = self._pace.model
        if model is None or not self._pace.sizes:
            return 0
        return model.tail_ns(min(max(1, self._lanes.rows), self._pace.cap_rows))

    def due(self, by_ns: int) -> Free:
        """Return the executor time of what waits and must begin until then, and its variance."""
        pace, model = self._pace, self._pace.model
        if model is None or not pace.sizes:
            return 0, 0.0
        batches, rest = divmod(self._lanes.rows_until(by_ns + self.call_ns()), pace.cap_rows)
        time_ns = batches * model.mean_ns(pace.cap_rows)
        variance = batches * model.std_ns(pace.cap_rows) ** 2
        last = [min(batch.rows, model.largest_size) for batch in self._bisection.waiting]
        if rest:  # what waits besides will join, and as many as usual
            others = self._lanes.rows - batches * pace.cap_rows
            last.append(min(pace.cap_rows, max(others, pace.need_rows)))
        time_ns += sum(model.mean_ns(rows) for rows in last)
        return time_ns, variance + sum(model.std_ns(rows) ** 2 for rows in last)

    def next_ns(self, least_ns: int) -> int:
        """Return the executor time of its next batches until that is reached, or none waits."""
        model, rows, time_ns = self._pace.model, self._lanes.rows, 0
        if model is None or not self._pace.sizes:
            return 0
        while rows > 0 and time_ns < least_ns:
            time_ns += model.mean_ns(min(rows, self._pace.cap_rows))
            rows -= self._pace.cap_rows
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
