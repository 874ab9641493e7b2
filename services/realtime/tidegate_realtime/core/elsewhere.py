"""What other models take of shared executors before a new request has its turn.

Their calls that run; their batches that can wait less, as large as they will be; what they have
fallen behind by, and get back first; and, if that is more, what is still to come: while the batches
ahead of the request run, others go on taking their share.

(Simulated, two and three models on one executor, objectives of 50 ms and 1 s, twice the capacity:
at most 1.3 % of what was accepted was missed. With nothing but what is due in the queues of the
others, between 1 and 40 %.)
"""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.plan import Free
from tidegate_realtime.core.turns import FADES_NS, LEAD_NS, Seat


class _Slot:
    """One executor: until when it is taken, and by whom at present."""

    __slots__ = ("at_ns", "seat", "variance")

    def __init__(self, free: Free, seat: Seat | None) -> None:
        self.at_ns, self.variance = free
        self.seat = seat


def behind_others(
    seat: Seat, free: list[Free], deadline_ns: int, now_ns: Nanoseconds
) -> list[Free]:
    """Foretell when a model has its executors, after the calls and the batches of others.

    Args:
        seat: Of the model.
        free: When each of its executors would be free if it shared them with nobody.
        deadline_ns: Of a request that comes last in the model's own order.
        now_ns: The present.

    Returns:
        The same of those that can be counted on; none if all calls seem to hang.
    """
    turns = seat.turns
    if not turns.is_scarce:
        return free
    slots = [_Slot((now_ns, 0.0), None) for _ in range(turns.idle)]
    for each in turns.seats:
        slots += [_Slot(end, each) for end in each.contender.busy(now_ns)]
    if not slots:
        return []
    by_ns = deadline_ns - seat.contender.call_ns()
    own_ns, _ = seat.contender.due(by_ns)
    running_ns = sum(slot.at_ns - now_ns for slot in slots if slot.seat is seat)
    served_ns = seat.served_until(now_ns) + running_ns + own_ns
    more_ns = _coming_ns(seat, own_ns, now_ns)
    for each in turns.seats:
        if each is not seat:
            due_ns, variance = each.contender.due(by_ns)
            due_ns = max(due_ns, _owed_ns(each, served_ns, now_ns))
            more_ns -= due_ns
            slot = _next_slot(each, slots)
            slot.at_ns += due_ns
            slot.variance += variance
    later_ns = max(0, more_ns // len(slots))
    ready = sorted((slot.at_ns + later_ns, slot.variance) for slot in slots)
    return [max(own, other) for own, other in zip(sorted(free), ready, strict=False)]


def _next_slot(seat: Seat, slots: list[_Slot]) -> _Slot:
    """Return the executor that a model will use next: one of its own present ones if all are."""
    taken = [slot for slot in slots if slot.seat is seat]
    among = taken if len(taken) >= seat.executors else slots
    return min(among, key=_at_ns)


def _at_ns(slot: _Slot) -> int:
    return slot.at_ns


def _owed_ns(seat: Seat, served_ns: int, now_ns: Nanoseconds) -> int:
    """Return the executor time that a model gets first, once another one has had so much."""
    owed_ns = served_ns - LEAD_NS - seat.served_until(now_ns)
    return seat.contender.next_ns(owed_ns) if owed_ns > 0 else 0


def _coming_ns(seat: Seat, own_ns: int, now_ns: Nanoseconds) -> int:
    """Return the executor time that others take of a model's executors while it has so much.

    As much as they have had of late beside the executors that are left to them, and at most what
    leaves the model its fair share.
    """
    turns = seat.turns
    used = sum(each.recent_ns(now_ns) for each in turns.seats if each is not seat) / FADES_NS
    lost = (used - turns.executors + seat.executors) / seat.executors
    most = 1 - turns.executors / (len(turns.seats) * seat.executors)
    share = min(max(0.0, lost), max(0.0, most))
    return int(own_ns * share / (1 - share))
