"""Several batchers of one model, which other models see as one.

They share the executors of their model, and these take turns with those of other models. So a model
with many parts gets no larger share than another, and its parts share what it gets.
"""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.plan import Free
from tidegate_realtime.core.turns import Seat, Turns


def nest(turns: Turns, *, within: Turns) -> Seat:
    """Let all seats of some turns together take one seat elsewhere, and start only by its leave."""
    turns.within = within.join(_Siblings(turns), executors=turns.executors)
    return turns.within


class _Siblings:
    """All seats of some turns, as other turns see them."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def urgency_ns(self, now_ns: Nanoseconds) -> int | None:
        """Return when the first of them must begin at the latest; ``None``: none would."""
        if self._turns.idle <= 0:
            return None
        each = (seat.contender.urgency_ns(now_ns) for seat in self._turns.seats)
        return min((urgency_ns for urgency_ns in each if urgency_ns is not None), default=None)

    def call_ns(self) -> int:
        """Return the least that a call takes."""
        return min((seat.contender.call_ns() for seat in self._turns.seats), default=0)

    def due(self, by_ns: int) -> Free:
        """Return the executor time of what waits and must begin until then, and its variance."""
        due = [seat.contender.due(by_ns) for seat in self._turns.seats]
        return sum(time_ns for time_ns, _ in due), sum(variance for _, variance in due)

    def next_ns(self, least_ns: int) -> int:
        """Return the executor time of their next batches until that is reached, or none waits."""
        time_ns = 0
        for seat in self._turns.seats:
            if time_ns < least_ns:
                time_ns += seat.contender.next_ns(least_ns - time_ns)
        return time_ns

    def busy(self, now_ns: Nanoseconds) -> list[Free]:
        """Foretell when each of their calls ends, without those that seem to hang."""
        return [free for seat in self._turns.seats for free in seat.contender.busy(now_ns)]

    def forget(self) -> None:
        """Foretell anew, each of them."""
        for seat in self._turns.seats:
            seat.contender.forget()
