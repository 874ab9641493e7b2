"""How requests end, each exactly once, and what an end takes along.

Who ends leaves the queue with all his rows, and the plan of admission no longer counts on them.
"""

from collections.abc import Iterable

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.admission import Admission, Refusal
from tidegate_realtime.core.bisection import Bisection, Verdict, still_wanted
from tidegate_realtime.core.commands import Batch, Command, Expire, Fail, Forget, Piece, Reject
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.ledger import Ledger
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.probes import Probes
from tidegate_realtime.core.request import Event, Request, State
from tidegate_realtime.core.standby import Standby

RUNNING, ANSWERED = State.RUNNING, State.ANSWERED
"""Local names, because looking a member up in its class takes four times as long."""


class Endings:
    """The one place where a request of a batcher reaches its end."""

    __slots__ = ("_admission", "_lanes", "_ledger", "_pace", "_probes", "_standby")

    def __init__(
        self,
        ledger: Ledger,
        lanes: Lanes,
        admission: Admission,
        pace: Pace,
        standby: Standby,
    ) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._standby = standby
        self._admission = admission
        self._pace = pace
        self._probes = Probes()

    @property
    def probes(self) -> Probes:
        """What became of the refusals that were tried."""
        return self._probes

    def reject(
        self,
        request: Request,
        refusal: Refusal,
        now_ns: Nanoseconds,
        commands: list[Command],
        *,
        is_idle: bool,
    ) -> bool:
        """Refuse a request; return whether a probe was queued in its stead.

        Args:
            request: It has just arrived.
            refusal: Why.
            now_ns: The present.
            commands: What is to be done is appended to these.
            is_idle: Whether nothing runs.
        """
        ledger, lanes = self._ledger, self._lanes
        rows_ahead = lanes.rows
        ledger.move(request, Event.REFUSED)
        probe = None
        hopeless_ns = now_ns + self._pace.overhead_ns
        if refusal.code == "deadline_unreachable" and request.deadline_at_ns > hopeless_ns:
            probe = self._probes.stand_in(
                request,
                cap_rows=self._pace.cap_rows,
                accepted=ledger.accepted,
                is_idle=is_idle and not rows_ahead,
                now_ns=now_ns,
            )
        if probe is None:
            ledger.rejected_by_code[refusal.code] += 1
        else:
            ledger.move(probe, Event.ADMITTED)
            probe.unanswered_rows = probe.rows
            lanes.push_unsheddable(probe, now_ns + self._pace.margin_ns)
            self._admission.forget()
        commands.append(_reject(request, refusal, rows_ahead, probe))
        return probe is not None

    def refuse_held(self, held: Iterable[tuple[Request, Refusal]], commands: list[Command]) -> None:
        """Refuse those who stood by in vain; no probe is needed to know that this was right."""
        for request, refusal in held:
            self._ledger.move(request, Event.REFUSED)
            self._ledger.rejected_by_code[refusal.code] += 1
            self._ledger.held_in_vain += 1
            commands.append(_reject(request, refusal, self._lanes.rows, None))

    def expire(self, request: Request, commands: list[Command]) -> None:
        """End a request that is late, or will be."""
        self._lanes.discard(request)
        self._ledger.move(request, Event.DEADLINE_PASSED)
        commands.append(Expire(request))

    def cancel(self, request: Request) -> None:
        """End a request whose caller left.

        Raises:
            IllegalTransitionError: It has ended.
        """
        self._ledger.move(request, Event.CALLER_LEFT)
        self._standby.discard(request)
        if request.waiting_rows:
            self._lanes.discard(request)
            self._admission.forget()

    def fail(self, verdict: Verdict, commands: list[Command]) -> None:
        """End the requests that a verdict names, and that have not ended."""
        failed = list(dict.fromkeys(piece.request for piece in still_wanted(verdict.pieces)))
        for request in failed:
            self._ledger.move(request, Event.BACKEND_FAILED)
            self._lanes.discard(request)
            if request.is_probe:
                commands.append(Forget(request))
        self._admission.forget()
        failed = [request for request in failed if not request.is_probe]
        if failed:
            self._ledger.poison_rows += verdict.poison_row is not None
            commands.append(Fail(failed, verdict.error, verdict.poison_row))

    def abandon(self, bisection: Bisection, commands: list[Command]) -> None:
        """End whatever would wait for ever, because nothing is left that could run it.

        Those who may be shed keep what is left of their time: another executor may come.
        """
        error = BackendError("the last executor of the model is gone, and the server shuts down")
        for verdict in bisection.give_up(error):
            self.fail(verdict, commands)
        for request in [each for each in self._lanes.in_order() if not each.sheddable]:
            if request.state is RUNNING:
                self.fail(Verdict([Piece(request, 0, request.waiting_rows)], error), commands)
            elif request.is_probe:
                self.cancel(request)
                commands.append(Forget(request))
            else:
                self._lanes.discard(request)
                self._ledger.move(request, Event.REFUSED)
                self._ledger.rejected_by_code["backend_unavailable"] += 1
                refusal = Refusal("backend_unavailable")
                commands.append(_reject(request, refusal, self._lanes.rows, None))

    def complete(self, batch: Batch, now_ns: Nanoseconds, commands: list[Command]) -> None:
        """Count the answered rows of a batch, and end whoever has no others."""
        answered: list[Request] = []
        for piece in batch.pieces:
            request = piece.request
            if request.state is RUNNING:
                request.unanswered_rows -= piece.rows
                if not request.unanswered_rows:
                    if request.sheddable:
                        request.state = ANSWERED
                        answered.append(request)
                    else:
                        self._end_late(request, now_ns, commands)
        self._ledger.end(answered, now_ns)

    def _end_late(self, request: Request, now_ns: Nanoseconds, commands: list[Command]) -> None:
        """End a request that could not be shed."""
        if request.is_probe:
            self._ledger.move(request, Event.CALLER_LEFT)  # who had his refusal long ago
            self._probes.on_answered(request, now_ns)
            commands.append(Forget(request))
        else:
            self._ledger.move(request, Event.BATCH_ENDED)
            self._ledger.late += now_ns > request.deadline_at_ns


def _reject(request: Request, refusal: Refusal, rows_ahead: int, probe: Request | None) -> Reject:
    predicted_ns, again_ns = refusal.predicted_ns, refusal.retry_after_ns
    return Reject(request, refusal.code, rows_ahead, predicted_ns, again_ns, probe)
