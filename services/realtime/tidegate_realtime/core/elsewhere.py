"""What other models take of shared executors before a new request has its turn.

Their calls that run; their batches that can wait less, as large as they will be; what they have
fallen behind by, and get back first; and, if that is more, what is still to come: while the batches
ahead of the request run, others go on taking their share.

(Simulated, two and three models on one executor, objectives of 50 ms and 1 s, twice the capacity:
at most 1.3 % of what was accepted was missed. With nothing but what is due in the queues of the
others, between 1 and 40 %.)
"""

from heapq import heapify, heapreplace

from tidegate.units import Nanoseconds
from tidegate_realtime.core.plan import Free
from tidegate_realtime.core.turns import LEAD_NS, Seat


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
    seats = seat.turns.seats
    if len(seats) == 1:
        return free
    shared: list[Free] = [(now_ns, 0.0)] * seat.turns.idle
    for each in seats:
        shared += each.contender.busy(now_ns)
    if not shared:
        return []
    heapify(shared)
    by_ns = deadline_ns - seat.contender.call_ns()
    own_ns, _ = seat.contender.due(by_ns)
    running_ns = sum(at_ns - now_ns for at_ns, _ in seat.contender.busy(now_ns))
    served_ns = seat.served_until(now_ns) + running_ns + own_ns
    more_ns = _coming_ns(seat, own_ns, now_ns)
    for each in seats:
        if each is not seat:
            due_ns, due_variance = each.contender.due(by_ns)
            due_ns = max(due_ns, _owed_ns(each, served_ns, now_ns))
            more_ns -= due_ns
            at_ns, variance = shared[0]
            heapreplace(shared, (at_ns + due_ns, variance + due_variance))
    later_ns = max(0, more_ns // len(shared))
    ready = sorted((at_ns + later_ns, variance) for at_ns, variance in shared)
    return [max(own, other) for own, other in zip(sorted(free), ready, strict=False)]


def _owed_ns(seat: Seat, served_ns: int, now_ns: Nanoseconds) -> int:
    """Return the executor time that a model gets first, once another one has had so much."""
    owed_ns = served_ns - LEAD_NS - seat.served_until(now_ns)
    return seat.contender.next_ns(owed_ns) if owed_ns > 0 else 0


def _coming_ns(seat: Seat, own_ns: int, now_ns: Nanoseconds) -> int:
    """Return the executor time that others take while a model has so much.

    By the share that they have had of late, and at most their fair one.
    """
    others = len(seat.turns.seats) - 1
    share = min(seat.turns.used(now_ns, but=seat), others / (others + 1))
    return int(own_ns * share / (1 - share))
