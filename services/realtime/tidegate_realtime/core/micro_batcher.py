"""The micro-batcher: events and the time in, commands out.

Late binding: a batch is chosen at the moment an executor is free, never earlier. With an idle
executor a request goes at once; while all are busy the queue fills, and the next batch takes what
is there. With one executor nobody waits for company, so that batches grow with the load and with
nothing else; with several, ``holding`` decides.

With a latency model, the cap (``pace``), who is admitted (``admission``) and who rides (``choice``)
follow from the objective and measured times. Without one the cap is fixed and whoever finds room in
the queue is admitted.

Each request ends exactly once (``core.request``). Deadlines do not depend on executors: a request
that is late ends at once, wherever it is. Every event first ends what is due, so an outcome depends
on the time and not on whether a timer or a batch came first.
"""

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.admission import Admission, Refusal
from tidegate_realtime.core.bisection import Bisection, Verdict, still_wanted
from tidegate_realtime.core.choice import Choice, choose, late_among
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Expire,
    Fail,
    Reject,
    StartBatch,
    WakeAt,
)
from tidegate_realtime.core.holding import Holding
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.ledger import Ledger
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.overhead import Overhead
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import FOREVER
from tidegate_realtime.core.probes import Probes
from tidegate_realtime.core.request import (
    Event,
    IllegalTransitionError,
    Request,
    State,
    check_arrival,
)
from tidegate_realtime.core.sojourn import Sojourn
from tidegate_realtime.core.statistics import BatcherStatistics, DispatchReason

RUNNING, ANSWERED = State.RUNNING, State.ANSWERED
"""Local names, because looking a member up in its class takes four times as long."""


class MicroBatcher:
    """Decides which requests run together, and how each one ends."""

    def __init__(
        self,
        *,
        executors: int,
        limits: BatchLimits,
        model: LatencyModel | None = None,
        objective_ns: Nanoseconds | None = None,
        overhead: Overhead | None = None,
    ) -> None:
        """Start with nothing queued.

        Args:
            executors: Batches that may run at the same time, at least 1.
            limits: The fixed cap, and the room in the queue.
            model: How long batches take, to derive the cap and to admit by; ``None``: the cap is
                fixed, and whoever fits the queue is admitted. It learns from every batch.
            objective_ns: From arrival to answer; given together with the model.
            overhead: The part of it outside the model call.
        """
        self.limits = limits
        self._executors = executors
        self.pace = Pace(model, objective_ns, overhead, executors, limits)
        self._lanes = Lanes()
        self._sojourn = Sojourn()
        self._admission = Admission(self.pace, self._lanes, self._sojourn)
        self._holding = Holding()
        self._probes = Probes()
        self._ledger = Ledger()
        self._running: list[Batch] = []
        self._bisection = Bisection()
        self._draining = False
        self._wake_at_ns = FOREVER

    def on_arrival(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Queue a new request, or refuse it; it starts at once where an executor is idle."""
        check_arrival(request)
        commands = self._expire_due(now_ns) if now_ns >= self._wake_at_ns else []
        self._ledger.arrived += 1
        if self.pace.on_arrival(request.rows, now_ns, is_empty=not self._lanes.rows):
            self._admission.forget()
        refusal = self._admit(request, now_ns)
        if refusal is None:
            self._accept(request, now_ns, commands)
        elif not self._reject(request, refusal, now_ns, commands) and len(commands) == 1:
            return commands  # nothing has changed
        if len(self._running) < self._executors:
            self._dispatch(now_ns, commands)
        if commands or request.deadline_at_ns - self.pace.margin_ns < self._wake_at_ns:
            self._wake(commands)
        return commands

    def on_cancel(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Forget a request whose caller left: rows that wait never run.

        Raises:
            IllegalTransitionError: The request has ended.
        """
        self._ledger.move(request, Event.CALLER_LEFT)
        if request.waiting_rows:
            self._lanes.discard(request)
            self._admission.forget()
        commands = self._expire_due(now_ns)
        self._wake(commands)
        return commands

    def on_batch_end(
        self, batch: Batch, now_ns: Nanoseconds, *, took_ns: int | None = None
    ) -> list[Command]:
        """Answer whom the batch completes, and use the executor that it leaves.

        Args:
            batch: One that was started.
            now_ns: When its end became known.
            took_ns: Duration of the model call; by default what has passed since its start.

        Raises:
            IllegalTransitionError: The batch is not running.
        """
        commands = self._expire_due(now_ns)
        self._release(batch)
        ended = 0
        for piece in batch.pieces:
            request = piece.request
            if request.state is RUNNING:
                request.unanswered_rows -= piece.rows
                if not request.unanswered_rows:
                    if request.sheddable:
                        request.state = ANSWERED
                        ended += 1
                    else:
                        self._end_late(request, now_ns)
        self._ledger.end(ended)
        self.pace.learn(batch.rows, took_ns or now_ns - batch.started_at_ns, now_ns)
        for verdict in self._bisection.on_ended(batch):
            self._fail(verdict, commands)
        self._dispatch(now_ns, commands)  # first: the executor idles until it is obeyed
        commands.append(Answer(batch))
        self._wake(commands)
        return commands

    def on_batch_failed(
        self, batch: Batch, error: BackendError, now_ns: Nanoseconds, *, may_rerun: bool = True
    ) -> list[Command]:
        """Find out which row it was, or fail every request with rows in the batch.

        Args:
            batch: One that was started.
            error: Why it has no outputs.
            now_ns: When that became known.
            may_rerun: Whether a row may be to blame, so that others would succeed without it.

        Raises:
            IllegalTransitionError: The batch is not running.
        """
        commands = self._expire_due(now_ns)
        self._release(batch)
        if may_rerun and self.pace.is_known:
            until_ns = now_ns + self.pace.margin_ns
            verdicts = self._bisection.on_failed(
                batch, error, is_hopeless=lambda r: r.sheddable and r.deadline_at_ns <= until_ns
            )
        else:
            verdicts = self._bisection.on_unusable(batch, error)
        for verdict in verdicts:
            self._fail(verdict, commands)
        self._dispatch(now_ns, commands)
        self._wake(commands)
        return commands

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """End what is due and start what was held; without effect if there is nothing."""
        commands = self._expire_due(now_ns)
        self._dispatch(now_ns, commands)
        self._wake(commands)
        return commands

    def on_drain(self, now_ns: Nanoseconds) -> list[Command]:
        """Refuse whatever arrives from now on; what was admitted goes on."""
        self._draining = True
        return self.on_tick(now_ns)

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended, and batches by size and reason."""
        return self._ledger.statistics(self._probes, self._lanes.statistics(), len(self._running))

    def _admit(self, request: Request, now_ns: Nanoseconds) -> Refusal | None:
        """Queue a request, or say why not."""
        lanes, limits = self._lanes, self.limits
        if self._draining:
            return Refusal("draining")
        if not request.sheddable:
            lanes.push_unsheddable(request, now_ns + self.pace.margin_ns)
            self._admission.forget()
            return None
        if (
            lanes.rows + request.rows > limits.queue_limit_rows
            or lanes.byte_count + request.size_bytes > limits.queue_limit_bytes
        ):
            return Refusal("queue_full")
        if self.pace.sizes:
            return self._admission.admit(request, self._running, self._bisection.waiting, now_ns)
        lanes.push(request)
        return None

    def _accept(self, request: Request, now_ns: Nanoseconds, commands: list[Command]) -> None:
        self._ledger.admit(request)
        self.pace.on_accepted(request.rows)
        request.unanswered_rows = request.rows
        if request.deadline_at_ns <= now_ns and request.sheddable:
            self._expire(request, commands)

    def _reject(
        self, request: Request, refusal: Refusal, now_ns: Nanoseconds, commands: list[Command]
    ) -> bool:
        """Refuse a request; return whether a probe was queued in its stead."""
        ledger, lanes = self._ledger, self._lanes
        rows_ahead = lanes.rows
        ledger.move(request, Event.REFUSED)
        probe = None
        if refusal.code == "deadline_unreachable":
            is_idle = not (self._running or rows_ahead or self._bisection.waiting)
            probe = self._probes.stand_in(request, accepted=ledger.accepted, is_idle=is_idle)
        if probe is None:
            ledger.rejected_by_code[refusal.code] += 1
        else:
            ledger.move(probe, Event.ADMITTED)
            probe.unanswered_rows = probe.rows
            lanes.push_unsheddable(probe, now_ns + self.pace.margin_ns)
            self._admission.forget()
        code, predicted_ns, again_ns = refusal
        commands.append(Reject(request, code, rows_ahead, predicted_ns, again_ns, probe))
        return probe is not None

    def _dispatch(self, now_ns: Nanoseconds, commands: list[Command]) -> None:
        lanes, running = self._lanes, self._running
        retries = self._bisection.waiting
        if not lanes.rows:
            self._holding.end()
        while (lanes.rows or retries) and len(running) < self._executors:
            if retries:
                self._retry(now_ns, commands)
                continue
            waited = self._holding.has_ended(now_ns)
            may_hold = self._executors > 1 and not (waited or self._draining)
            if may_hold and self._holding.is_on(lanes, self.pace, now_ns):
                break
            self._holding.end()
            choice = choose(lanes, self.pace, now_ns)
            if choice.victim is not None:
                self._expire(choice.victim, commands)
            else:
                self._form(choice, self._reason(waited), now_ns, commands)

    def _form(
        self,
        choice: Choice,
        reason: DispatchReason,
        now_ns: Nanoseconds,
        commands: list[Command],
    ) -> None:
        cap_rows = self.pace.cap_rows
        pieces, blocked = self._lanes.take(choice.rows, cap_rows)
        if choice.is_mixed:
            if not pieces:  # the first one in turn is larger than that
                pieces, blocked = self._lanes.take(cap_rows, cap_rows)
            for request in (late := late_among(pieces, self.pace, now_ns)):
                self._expire(request, commands)
            pieces = [piece for piece in pieces if piece.request not in late]
        if choice.is_shrunk or blocked:
            reason = "fits" if choice.is_shrunk else "full"
        if pieces:
            self._start(Batch(pieces, sum([p.rows for p in pieces]), reason), now_ns, commands)

    def _reason(self, waited: bool) -> DispatchReason:
        if waited:
            return "waited"
        if self._executors == 1 or not self.pace.is_known:
            return "free"
        return "drain" if self._draining else "need_met"

    def _start(self, batch: Batch, now_ns: Nanoseconds, commands: list[Command]) -> None:
        start = self._ledger.start
        for piece in batch.pieces:
            request = piece.request
            if request.started_at_ns is None:
                request.started_at_ns = now_ns
                start(request)
        batch.started_at_ns = now_ns
        pace = self.pace
        if pace.model is not None and pace.objective_ns is not None and pace.sizes:
            waited_ns = now_ns - batch.pieces[-1].request.arrived_at_ns
            busy_ns = pace.model.tail_ns(pace.cap_rows) + pace.overhead_ns
            self._sojourn.on_dispatch(waited_ns, pace.objective_ns - busy_ns, now_ns)
        self._admission.forget()
        self._running.append(batch)
        self._ledger.batches_by_reason[batch.reason] += 1
        self._ledger.batches_by_rows[batch.rows] += 1
        commands.append(StartBatch(batch))

    def _retry(self, now_ns: Nanoseconds, commands: list[Command]) -> None:
        batch, verdicts = self._bisection.take()
        late = late_among(batch.pieces, self.pace, now_ns) if batch is not None else []
        for request in late:
            self._expire(request, commands)
        if batch is not None and late:
            self._bisection.waiting.insert(0, batch)  # to be looked at again, without them
        elif batch is not None:
            self._start(batch, now_ns, commands)
        for verdict in verdicts:
            self._fail(verdict, commands)

    def _fail(self, verdict: Verdict, commands: list[Command]) -> None:
        failed = list(dict.fromkeys(piece.request for piece in still_wanted(verdict.pieces)))
        for request in failed:
            self._ledger.move(request, Event.BACKEND_FAILED)
            self._lanes.discard(request)
        self._admission.forget()
        failed = [request for request in failed if not request.is_probe]
        if failed:
            self._ledger.poison_rows += verdict.poison_row is not None
            commands.append(Fail(failed, verdict.error, verdict.poison_row))

    def _end_late(self, request: Request, now_ns: Nanoseconds) -> None:
        """End a request that could not be shed."""
        if request.is_probe:
            self._ledger.move(request, Event.CALLER_LEFT)  # who had his refusal long ago
            self._probes.on_answered(request, now_ns)
        else:
            self._ledger.move(request, Event.BATCH_ENDED)
            self._ledger.late += now_ns > request.deadline_at_ns

    def _release(self, batch: Batch) -> None:
        if batch not in self._running:
            raise IllegalTransitionError(f"a batch of {batch.rows} rows ended that was not running")
        self._running.remove(batch)
        self._admission.forget()

    def _expire_due(self, now_ns: Nanoseconds) -> list[Command]:
        commands: list[Command] = []
        if now_ns < self._wake_at_ns:
            return commands
        due = self._lanes.take_due(Nanoseconds(now_ns + self.pace.margin_ns))
        for request, rows in due:
            if request.sheddable:
                self._expire(request, commands)
            else:
                self._lanes.push_late(request, rows)
        if due:
            self._admission.forget()
        for batch in (*self._running, *self._bisection.waiting):
            for piece in batch.pieces:
                request = piece.request
                if request.deadline_at_ns > now_ns:
                    break  # the others are later still
                self._expire_running(request, commands)
        return commands

    def _expire_running(self, request: Request, commands: list[Command]) -> None:
        if request.state is RUNNING and request.sheddable:
            self._expire(request, commands)

    def _expire(self, request: Request, commands: list[Command]) -> None:
        self._lanes.discard(request)
        self._ledger.move(request, Event.DEADLINE_PASSED)
        commands.append(Expire(request))

    def _wake(self, commands: list[Command]) -> None:
        """Name the earliest instant at which something is due, if it is another than before."""
        at_ns = FOREVER if self._holding.until_ns is None else self._holding.until_ns
        if self._lanes.rows:
            waiting_ns = self._lanes.earliest_deadline_at_ns()
            if waiting_ns is not None:
                at_ns = min(at_ns, waiting_ns - self.pace.margin_ns)
        for batch in (*self._running, *self._bisection.waiting):
            for piece in batch.pieces:
                request = piece.request
                if request.state is RUNNING and request.sheddable:
                    at_ns = min(at_ns, request.deadline_at_ns)
                    break  # the others are later still
        if at_ns != self._wake_at_ns:
            self._wake_at_ns = at_ns
            commands.append(WakeAt(None if at_ns == FOREVER else Nanoseconds(at_ns)))
