"""The micro-batcher: events and the time in, commands out.

Late binding: a batch is chosen at the moment an executor is free, never earlier. With an idle
executor a request goes at once; while all are busy the queue fills, and the next batch takes what
is there. With one executor nobody waits for company, so that batches grow with the load and with
nothing else; with several, ``holding`` decides. ``formation`` puts the batch together.

With a latency model, the cap (``pace``), who is admitted (``admission``) and who rides (``choice``)
follow from the objective and measured times. Without one the cap is fixed and whoever finds room in
the queue is admitted.

Each request ends exactly once (``core.request``, ``endings``). Deadlines do not depend on
executors: a request that is late ends at once, wherever it is. Every event first ends what is due,
so an outcome depends on the time and not on whether a timer or a batch came first. A call that
nobody waits for any more is terminated, and one that hangs is given up (``executors``).
"""

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds, ns_to_ms
from tidegate_realtime.core.admission import Admission, Refusal
from tidegate_realtime.core.bisection import Bisection
from tidegate_realtime.core.commands import Answer, Batch, Command, GiveUp, StartBatch, Terminate
from tidegate_realtime.core.endings import Endings
from tidegate_realtime.core.executors import Executors
from tidegate_realtime.core.formation import Formation
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.ledger import Ledger
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.overhead import Overhead
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request, State, check_arrival
from tidegate_realtime.core.shares import Shares
from tidegate_realtime.core.sharing import SharingModel
from tidegate_realtime.core.sojourn import Sojourn
from tidegate_realtime.core.standby import Standby
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.core.turns import Seat, Turns
from tidegate_realtime.core.waking import Waking

RUNNING = State.RUNNING
"""A local name, because looking a member up in its class takes four times as long."""


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
        self._executors = Executors(executors)
        self.pace = Pace(model, objective_ns, overhead, executors, limits)
        self._lanes = Lanes()
        self._sojourn = Sojourn()
        self._standby = Standby(self.pace)
        shares = Shares(self.pace, self._lanes, self._standby.rows_by_class)
        self._admission = Admission(self.pace, self._lanes, self._sojourn, shares)
        self._ledger = Ledger()
        self._endings = Endings(
            self._ledger, self._lanes, self._admission, self.pace, self._standby
        )
        self._bisection = Bisection()
        self._formation = Formation(
            self._lanes, self.pace, self._bisection, self._endings, self._standby, self._ledger
        )
        self.seat: Seat | None = None
        """The place among the models that share executors; ``None``: they are its own."""
        self._waking = Waking(self._lanes, self._standby, self.pace, self._formation.holding)

    def share(self, turns: Turns) -> Seat:
        """Use executors only when it is this model's turn; to be called before any event."""
        sharing = SharingModel(
            self._lanes,
            self.pace,
            self._executors,
            self._bisection,
            self._formation,
            self._admission,
        )
        self.seat = turns.join(sharing, executors=self._executors.usable)
        self._admission.seat = self.seat
        return self.seat

    def on_arrival(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Queue a new request, or refuse it; it starts at once where an executor is idle."""
        check_arrival(request)
        commands = self._expire_due(now_ns) if now_ns >= self._waking.at_ns else []
        ledger = self._ledger
        ledger.arrived += 1
        ledger.arrived_rows += request.rows
        if self.pace.on_arrival(request.rows, now_ns):
            self._admission.forget()
        refusal = self._admit(request, now_ns)
        if refusal is None:
            ledger.admit(request)
            if request.deadline_at_ns <= now_ns and request.sheddable:
                self._endings.expire(request, commands)
        elif not self._reject(request, refusal, now_ns, commands) and len(commands) == 1:
            return commands  # nothing has changed
        if self._executors.idle > 0:
            self._dispatch(now_ns, commands)
        if commands or self._waking.is_moved_by(request):
            self._wake(commands)
        return commands

    def on_unread(self, request: Request, now_ns: Nanoseconds) -> list[Command] | None:
        """Refuse a request before anybody has read it; ``None``: it must be read and arrive.

        Under overload most of the work is to read what is then refused; whoever would not even be
        promised one row needs no reading.

        Args:
            request: With one row; if it is refused it counts as one of usual size.
            now_ns: The present.
        """
        ledger, probes = self._ledger, self._endings.probes
        if now_ns >= self._waking.at_ns or self._executors.idle > 0 or not request.sheddable:
            return None
        refusal = self._admission.refuse_unread(request, now_ns)
        if refusal is None or probes.is_due(ledger.accepted):
            return None
        usual_rows = ledger.usual_rows()
        ledger.arrived += 1
        ledger.arrived_rows += usual_rows
        ledger.refused_unread += 1
        if self.pace.on_arrival(usual_rows, now_ns):
            self._admission.forget()
        commands: list[Command] = []
        self._endings.reject(request, refusal, now_ns, commands, is_idle=False)
        return commands

    def on_cancel(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Forget a request whose caller left: rows that wait never run.

        Raises:
            IllegalTransitionError: The request has ended.
        """
        self._endings.cancel(request)
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
        commands = self._expire_due(now_ns) if now_ns >= self._waking.at_ns else []
        self._release(batch, now_ns)
        self._endings.complete(batch, now_ns, commands)
        took_ns = took_ns or now_ns - batch.started_at_ns
        self.pace.learn(batch.rows, took_ns, now_ns, request_rows=self._ledger.usual_rows())
        for verdict in self._bisection.on_ended(batch):
            self._endings.fail(verdict, commands)
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
            may_rerun: Whether fewer of its rows may succeed.

        Raises:
            IllegalTransitionError: The batch is not running.
        """
        commands = self._expire_due(now_ns)
        self._release(batch, now_ns)
        if batch.is_terminated:
            self._learn_cut_short(batch, now_ns)
            verdicts = self._bisection.on_unwanted(batch)
        elif may_rerun and self.pace.is_known:
            until_ns = now_ns + self.pace.margin_ns
            verdicts = self._bisection.on_failed(
                batch, error, is_hopeless=lambda r: r.sheddable and r.deadline_at_ns <= until_ns
            )
        else:
            verdicts = self._bisection.on_unusable(batch, error)
        for verdict in verdicts:
            self._endings.fail(verdict, commands)
        self._dispatch(now_ns, commands)
        self._wake(commands)
        return commands

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """End what is due, give up what hangs, start what was held; or find nothing to do."""
        commands = self._expire_due(now_ns)
        for batch in self._executors.hung(now_ns):
            self._give_up(batch, now_ns, commands)
        if self._formation.is_draining and self._executors.usable <= 0:
            self._endings.abandon(self._bisection, commands)
        self._dispatch(now_ns, commands)
        self._wake(commands)
        return commands

    def on_executor_change(self, by: int, now_ns: Nanoseconds) -> list[Command]:
        """Learn that there are more executors, or fewer, and use those that are there.

        Args:
            by: How many have come; below 0: have left. What these run ends as any batch does. One
                that was given up has left already.
            now_ns: When.
        """
        self._change_executors(by)
        return self.on_tick(now_ns)

    def on_drain(self, now_ns: Nanoseconds) -> list[Command]:
        """Refuse whatever arrives from now on; what was admitted goes on."""
        self._formation.is_draining = True
        return self.on_tick(now_ns)

    @property
    def is_available(self) -> bool:
        """Whether there is an executor at all; without one, whoever may be refused is."""
        return self._executors.usable > 0

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended, and batches by size and reason."""
        return self._ledger.statistics(
            self._endings.probes, self._lanes.statistics(), self._executors
        )

    def _admit(self, request: Request, now_ns: Nanoseconds) -> Refusal | None:
        """Queue a request, or say why not."""
        lanes, limits = self._lanes, self.limits
        held_bytes = lanes.byte_count + self._standby.byte_count
        if self._formation.is_draining:
            return Refusal("draining")
        if not request.sheddable:
            lanes.push_unsheddable(request, now_ns + self.pace.margin_ns)
            self._admission.forget()
            return None
        if self._executors.usable <= 0:
            return Refusal("backend_unavailable")
        if (
            lanes.rows + request.rows > limits.queue_limit_rows
            or held_bytes + request.size_bytes > limits.queue_limit_bytes
        ):
            return Refusal("queue_full")
        if self.pace.sizes:
            running, retries = self._executors.running, self._bisection.waiting
            return self._admission.admit(request, running, retries, now_ns)
        lanes.push(request)
        return None

    def _reject(
        self, request: Request, refusal: Refusal, now_ns: Nanoseconds, commands: list[Command]
    ) -> bool:
        """Refuse a request, or let it stand by; return whether anything has changed by it."""
        if refusal.is_open:
            self._ledger.hold(request)
            start_ns = self._executors.free_at_ns(self.pace.model, now_ns)
            gone = self._standby.hold(request, refusal)
            gone += self._standby.take_crowded_out(self._lanes.rows, start_ns)
            self._endings.refuse_held(gone, commands)
            return True
        is_idle = not (self._executors.running or self._bisection.waiting)
        is_idle = is_idle and (self.seat is None or self.seat.may_probe(now_ns))
        return self._endings.reject(request, refusal, now_ns, commands, is_idle=is_idle)

    def _dispatch(self, now_ns: Nanoseconds, commands: list[Command]) -> None:
        executors, seat = self._executors, self.seat
        while executors.idle > 0 and (seat is None or seat.may_start(now_ns)):
            batch = self._formation.next_batch(now_ns, commands, executors=executors.usable)
            if batch is None:
                break
            self._start(batch, now_ns, commands)
        else:  # no executor is left that rows could be held for
            self._formation.holding.wake_at_ns = None
        if self._standby.rows:
            lost = self._standby.take_lost(self._executors.free_at_ns(self.pace.model, now_ns))
            self._endings.refuse_held(lost, commands)

    def _start(self, batch: Batch, now_ns: Nanoseconds, commands: list[Command]) -> None:
        self._ledger.start(batch, now_ns)
        self._executors.start(batch, now_ns, self._admission.on_start(batch, now_ns))
        if self.seat is not None:
            self.seat.start(now_ns)
        commands.append(StartBatch(batch))

    def _release(self, batch: Batch, now_ns: Nanoseconds) -> None:
        self._executors.release(batch)
        self._admission.forget()
        ran_ns, first = now_ns - batch.started_at_ns, batch.pieces[0].request
        if self.seat is not None:
            self.seat.end(ran_ns, now_ns)
        if first.is_probe:
            self._endings.probes.on_ran(first, ran_ns, now_ns)
            if self.seat is not None:
                self.seat.on_probe(first, ran_ns, now_ns)

    def _change_executors(self, by: int) -> None:
        self._executors.change(by)
        self.pace.executors = max(1, self._executors.usable)
        self._admission.forget()

    def _expire_due(self, now_ns: Nanoseconds) -> list[Command]:
        commands: list[Command] = []
        if now_ns < self._waking.at_ns:
            return commands
        self._end_waiting(now_ns, commands)
        for batch in (*self._executors.running, *self._bisection.waiting):
            for piece in batch.pieces:
                request = piece.request
                if request.deadline_at_ns > now_ns:
                    break  # the others are later still
                self._expire_running(request, commands)
        return commands

    def _end_waiting(self, now_ns: Nanoseconds, commands: list[Command]) -> None:
        if self._standby.rows:
            self._endings.refuse_held(self._standby.take_lost(now_ns), commands)
        due = self._lanes.take_due(Nanoseconds(now_ns + self.pace.margin_ns))
        for request, rows in due:
            if request.sheddable:
                self._endings.expire(request, commands)
            else:
                self._lanes.push_late(request, rows)
        if due:
            self._admission.forget()

    def _expire_running(self, request: Request, commands: list[Command]) -> None:
        if request.state is RUNNING and request.sheddable:
            self._endings.expire(request, commands)

    def _give_up(self, batch: Batch, now_ns: Nanoseconds, commands: list[Command]) -> None:
        """Let a call go that hangs; its rows are not tried again, for they may be why."""
        ran_ns = Nanoseconds(now_ns - batch.started_at_ns)
        error = BackendError(
            f"the call of {batch.rows} rows has run for {ns_to_ms(ran_ns):.0f} ms, far longer than "
            "any before, and was given up; its executor is being replaced"
        )
        self._release(batch, now_ns)
        self._change_executors(-1)
        self._ledger.executors_given_up += 1
        for verdict in self._bisection.on_unusable(batch, error):
            self._endings.fail(verdict, commands)
        commands.append(GiveUp(batch, ran_ns))

    def _wake(self, commands: list[Command]) -> None:
        for batch in self._waking.name(self._executors, self._bisection, commands):
            batch.is_terminated = True
            self._ledger.batches_terminated += 1
            commands.append(Terminate(batch))

    def _learn_cut_short(self, batch: Batch, now_ns: Nanoseconds) -> None:
        """Learn from a call that was ended early.

        How long it would have taken is not known; that it takes at least so long is. Without that,
        a model that has become too slow to answer anybody would not be found out.
        """
        model = self.pace.model
        if model is not None and model.largest_size and not batch.is_overdue:
            rows = min(batch.rows, model.largest_size)
            model.observe_running(rows, now_ns - batch.started_at_ns, now_ns)
            self.pace.renew()
