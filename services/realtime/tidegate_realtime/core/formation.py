"""Forms the batch that an idle executor is to run: parts of failed ones first, then what waits.

Here holding, choosing and taking come together, and whoever cannot be answered any more, or only to
the harm of others, ends on the way.
"""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.bisection import Bisection
from tidegate_realtime.core.choice import Choice, choose, late_among
from tidegate_realtime.core.commands import Batch, Command, Piece
from tidegate_realtime.core.endings import Endings
from tidegate_realtime.core.holding import Holding
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.ledger import Ledger
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Event
from tidegate_realtime.core.standby import Standby
from tidegate_realtime.core.statistics import DispatchReason


class Formation:
    """What one model would run next."""

    __slots__ = (
        "_bisection",
        "_endings",
        "_lanes",
        "_ledger",
        "_pace",
        "_standby",
        "holding",
        "is_draining",
    )

    def __init__(
        self,
        lanes: Lanes,
        pace: Pace,
        bisection: Bisection,
        endings: Endings,
        standby: Standby,
        ledger: Ledger,
    ) -> None:
        self._lanes = lanes
        self._pace = pace
        self._bisection = bisection
        self._endings = endings
        self._standby = standby
        self._ledger = ledger
        self.holding = Holding()
        self.is_draining = False
        """Whether no company will come."""

    def next_batch(
        self, now_ns: Nanoseconds, commands: list[Command], *, executors: int
    ) -> Batch | None:
        """Form a batch for an executor that is idle now; ``None``: nothing waits, or it is held.

        Args:
            now_ns: The present.
            commands: Ends of requests are appended to these.
            executors: How many there are.
        """
        lanes, retries = self._lanes, self._bisection.waiting
        if not lanes.rows:
            self.holding.end()
        while lanes.rows or retries:
            if retries:
                batch = self._next_part(now_ns, commands)
            else:
                waited = self.holding.has_ended(now_ns)
                may_hold = executors > 1 and not (waited or self.is_draining)
                if may_hold and self.holding.is_on(lanes, self._pace, now_ns):
                    return None
                self.holding.end()
                batch = self._from_queue(self._reason(executors, waited), now_ns, commands)
            if batch is not None:
                return batch
        pieces = self._standing_by([], now_ns)
        return _batch(pieces, "free") if pieces else None

    def _from_queue(
        self, reason: DispatchReason, now_ns: Nanoseconds, commands: list[Command]
    ) -> Batch | None:
        """Take rows from the queue, or give one request up and take none."""
        choice = choose(self._lanes, self._pace, now_ns)
        if choice.victim is not None:
            self._endings.expire(choice.victim, commands)
            return None
        return self._taken(choice, reason, now_ns, commands)

    def _taken(
        self,
        choice: Choice,
        reason: DispatchReason,
        now_ns: Nanoseconds,
        commands: list[Command],
    ) -> Batch | None:
        cap_rows = self._pace.cap_rows
        pieces, blocked = self._lanes.take(choice.rows, cap_rows)
        if choice.is_mixed:
            if not pieces:  # the first one in turn is larger than that
                pieces, blocked = self._lanes.take(cap_rows, cap_rows)
            for request in (late := late_among(pieces, self._pace, now_ns)):
                self._endings.expire(request, commands)
            pieces = [piece for piece in pieces if piece.request not in late]
        if choice.is_shrunk or blocked:
            reason = "fits" if choice.is_shrunk else "full"
        if pieces and self._standby.rows and not self._lanes.rows:
            pieces = sorted([*pieces, *self._standing_by(pieces, now_ns)], key=_deadline)
        return _batch(pieces, reason) if pieces else None

    def _standing_by(self, pieces: list[Piece], now_ns: Nanoseconds) -> list[Piece]:
        """Admit those who stand by to the places that are left; nobody waits for these."""
        if not self._standby.rows:
            return []
        added = self._standby.fill(pieces, now_ns)
        for piece in added:
            self._ledger.move(piece.request, Event.ADMITTED)
            piece.request.unanswered_rows = piece.rows
        return added

    def _next_part(self, now_ns: Nanoseconds, commands: list[Command]) -> Batch | None:
        """Take a part of a batch that failed, unless it must be looked at again."""
        batch, verdicts = self._bisection.take()
        late = late_among(batch.pieces, self._pace, now_ns) if batch is not None else []
        for request in late:
            self._endings.expire(request, commands)
        for verdict in verdicts:
            self._endings.fail(verdict, commands)
        if batch is not None and late:
            self._bisection.waiting.insert(0, batch)  # without them
            return None
        return batch

    def _reason(self, executors: int, waited: bool) -> DispatchReason:
        if waited:
            return "waited"
        if executors == 1 or not self._pace.is_known:
            return "free"
        return "drain" if self.is_draining else "need_met"


def _batch(pieces: list[Piece], reason: DispatchReason) -> Batch:
    return Batch(pieces, sum([piece.rows for piece in pieces]), reason)


def _deadline(piece: Piece) -> Nanoseconds:
    return piece.request.deadline_at_ns
