"""What other models take of shared executors before a new request has its turn.

Their calls that run; their batches that can wait less, as large as they will be; what they have
fallen behind by, and get back first; and, if that is more, what is still to come: while the batches
ahead of the request run, others go on taking their share. Where no lead is allowed, urgency counts
for nothing: others go first as far as they have had less, and whoever comes meanwhile is next.

(Simulated, two and three models on one executor, objectives of 50 ms and 1 s, twice the capacity:
at most 1.3 % of what was accepted was missed. With nothing but what is due in the queues of the
others, between 1 and 40 %.)
"""

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.core.plan import FOREVER, Free
from tidegate_realtime.core.turns import FADES_NS, Seat, Turns


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
    ahead_ns = own_ns if turns.lead_ns else own_ns + min(map(_at_ns, slots)) - now_ns
    left = {each: _left_ns(each, slots, now_ns) for each in turns.seats}
    served_ns = seat.served_until(now_ns) + left[seat] + own_ns
    foreseen_ns = most_ns = 0
    for each in turns.seats:
        if each is not seat:
            behind_ns = served_ns - each.served_until(now_ns)
            may_ns = _most_ns(each, behind_ns - left[each])
            due_ns, variance = _due(each, by_ns, behind_ns, may_ns)
            foreseen_ns += due_ns
            most_ns += may_ns
            slot = _next_slot(each, slots)
            slot.at_ns += due_ns
            slot.variance += variance
    more_ns = min(most_ns, _coming_ns(seat, ahead_ns, now_ns)) - foreseen_ns
    later_ns = max(0, more_ns) // len(slots)
    variance = later_ns * _longest_call_ns(seat, now_ns)
    ready = sorted((slot.at_ns + later_ns, slot.variance + variance) for slot in slots)
    ready = [max(own, other) for own, other in zip(sorted(free), ready, strict=False)]
    return _behind_outer(turns, ready, deadline_ns, now_ns)


def _behind_outer(
    turns: Turns, ready: list[Free], deadline_ns: int, now_ns: Nanoseconds
) -> list[Free]:
    if turns.within is None or not ready:
        return ready
    return behind_others(turns.within, ready, deadline_ns, now_ns)


def _next_slot(seat: Seat, slots: list[_Slot]) -> _Slot:
    """Return the executor that a model will use next: one of its own present ones if all are."""
    taken = [slot for slot in slots if slot.seat is seat]
    among = taken if len(taken) >= seat.executors else slots
    return min(among, key=_at_ns)


def _at_ns(slot: _Slot) -> int:
    return slot.at_ns


def _left_ns(seat: Seat, slots: list[_Slot], now_ns: Nanoseconds) -> int:
    """Return how long the calls of a model still run, all of them together."""
    return sum(slot.at_ns - now_ns for slot in slots if slot.seat is seat)


def _most_ns(seat: Seat, behind_ns: int) -> int:
    """Return how much another model may have before one that waits, if no lead is allowed.

    Args:
        seat: Of the other one.
        behind_ns: What it will have had less by the end of its calls that run.
    """
    return FOREVER if seat.turns.lead_ns else max(0, behind_ns + 1)


def _due(seat: Seat, by_ns: int, behind_ns: int, most_ns: int) -> Free:
    """Return the executor time of another model's batches that go first, and its variance."""
    due_ns, variance = seat.contender.due(by_ns)
    if most_ns < FOREVER:
        due_ns = min(due_ns, seat.contender.next_ns(most_ns))
    owed_ns = behind_ns - seat.turns.lead_ns
    return max(due_ns, seat.contender.next_ns(owed_ns) if owed_ns > 0 else 0), variance


def _longest_call_ns(seat: Seat, now_ns: Nanoseconds) -> int:
    """Return what others run at a time, if they go first whenever they come.

    What comes by chance, in calls of one duration, varies by its time multiplied by that.
    """
    turns = seat.turns
    if turns.lead_ns:
        return 0
    others = [each for each in turns.seats if each is not seat]
    lately = (each for each in others if each.recent_ns(now_ns) >= NS_PER_MS)
    return max((each.contender.call_ns() for each in lately), default=0)


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
