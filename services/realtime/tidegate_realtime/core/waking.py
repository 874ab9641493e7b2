"""When a batcher must be woken next: the earliest instant at which something is due."""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.bisection import Bisection, still_wanted
from tidegate_realtime.core.commands import Batch, Command, WakeAt
from tidegate_realtime.core.executors import Executors
from tidegate_realtime.core.holding import Holding
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import FOREVER
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.standby import Standby

RUNNING = State.RUNNING
"""A local name, because looking a member up in its class takes four times as long."""


class Waking:
    """Knows which instant was named last, and names another one only if it is another one."""

    __slots__ = ("_holding", "_lanes", "_pace", "_standby", "at_ns")

    def __init__(self, lanes: Lanes, standby: Standby, pace: Pace, holding: Holding) -> None:
        self._lanes = lanes
        self._standby = standby
        self._pace = pace
        self._holding = holding
        self.at_ns: int = FOREVER
        """What was named last."""

    def is_moved_by(self, request: Request) -> bool:
        """Whether something is due earlier than was named, now that a request has arrived."""
        held_until_ns = self._holding.wake_at_ns  # company that came may have brought it forward
        return request.deadline_at_ns - self._pace.margin_ns < self.at_ns or (
            held_until_ns is not None and held_until_ns < self.at_ns
        )

    def name(
        self, executors: Executors, bisection: Bisection, commands: list[Command]
    ) -> list[Batch]:
        """Name the next instant; return the calls that nobody waits for any more.

        Args:
            executors: What they run ends, hangs, or has members that expire.
            bisection: So have parts of failed batches.
            commands: A ``WakeAt`` is appended to these.
        """
        due_at_ns: list[int] = [self._waiting_due_ns()]
        unwanted = []
        for batch in executors.running:
            due_at_ns.append(batch.hangs_at_ns)
            due_ns = _due_ns(batch)
            if due_ns is not None:
                due_at_ns.append(due_ns)
            elif not (batch.is_terminated or still_wanted(batch.pieces)):
                unwanted.append(batch)
        due_at_ns += [_due_ns(batch) or FOREVER for batch in bisection.waiting]
        at_ns = min(due_at_ns)
        if at_ns != self.at_ns:
            self.at_ns = at_ns
            commands.append(WakeAt(None if at_ns == FOREVER else Nanoseconds(at_ns)))
        return unwanted

    def _waiting_due_ns(self) -> int:
        held_until_ns = self._holding.wake_at_ns
        at_ns = FOREVER if held_until_ns is None else held_until_ns
        lanes, standby = self._lanes, self._standby
        first_ns = lanes.earliest_deadline_at_ns() if lanes.rows else None
        if first_ns is not None:
            at_ns = min(at_ns, first_ns - self._pace.margin_ns)
        told_by_ns = standby.told_by_ns() if standby.rows else None
        if told_by_ns is not None:
            at_ns = min(at_ns, told_by_ns)
        return at_ns


def _due_ns(batch: Batch) -> Nanoseconds | None:
    """Return the earliest deadline of those who wait for a batch, and may be shed."""
    for piece in batch.pieces:
        request = piece.request
        if request.state is RUNNING and request.sheddable:
            return request.deadline_at_ns  # the others are later still
    return None
