"""Whose turn it is, where several models share executors.

Each model forms its own batches. When an executor is idle, the model goes next whose most urgent
row can wait least: D - L(b), the latest moment at which its batch must begin. That alone would let
a busy model with a short objective starve one with a long objective, which is always less urgent
until it is too late. So time is counted: of the models that have something to run, none gets more
than a lead of executor time ahead of another. A model that has nothing to run saves no time up
meanwhile, or its return would stop the others for as long. (Serving always whoever is furthest
behind, as start-time fair queueing does, Goyal et al., SIGCOMM 1996, would throw the urgency away.
Without any lead that is what happens, which suits the parts of one model.)

What admission must foretell of the others is in ``elsewhere``. After each event of any of them,
whoever drives the models asks ``Turns.next_seat`` and lets that model dispatch, until nobody is
next: the executor that one model leaves is often another one's turn, and no event of its own would
tell it.
"""

from math import exp
from typing import Final, Protocol

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.plan import Free
from tidegate_realtime.core.probes import Pauses
from tidegate_realtime.core.request import Request

LEAD_NS: Final = 100 * NS_PER_MS
"""Executor time. A stretch of several batches of most models, in which urgency decides freely; and
the longest that a model waits for each other one, beside the call that runs. Of calls that take
longer than this, each model gets one in turn."""

FADES_NS: Final = NS_PER_SECOND
"""What was used a second ago counts a third."""


class Contender(Protocol):
    """What a model wants of the executors."""

    def urgency_ns(self, now_ns: Nanoseconds) -> int | None:
        """Return when its next batch must begin at the latest; ``None``: it would run nothing."""
        ...

    def call_ns(self) -> int:
        """Return L(b) of its next batch: how much earlier than its deadline it must begin."""
        ...

    def due(self, by_ns: int) -> Free:
        """Return the executor time of what waits and must begin until then, and its variance."""
        ...

    def next_ns(self, least_ns: int) -> int:
        """Return the executor time of its next batches until that is reached, or none waits."""
        ...

    def busy(self, now_ns: Nanoseconds) -> list[Free]:
        """Foretell when each of its calls ends, without those that seem to hang."""
        ...

    def forget(self) -> None:
        """Foretell anew: another model has taken an executor, or left one."""
        ...


class Turns:
    """Executors that several models share."""

    def __init__(self, executors: int, *, lead_ns: int = LEAD_NS) -> None:
        """Let nobody run yet.

        Args:
            executors: Batches of all models together that may run at the same time, at least 1.
            lead_ns: Executor time that one may be ahead of another who waits, when a call starts.
        """
        self.executors = executors
        self.lead_ns = lead_ns
        self.within: Seat | None = None
        """The place of all of them among others; see ``siblings``."""
        self.idle = executors
        self.seats: list[Seat] = []
        self.is_scarce = False
        """Whether all models together have more executors than there are to share."""
        self.is_open = False
        """Whether an executor may be left that somebody waits for: ``next_seat`` says who."""

    def join(self, contender: Contender, *, executors: int) -> "Seat":
        """Let a model take part; it has had as much time as who has had least.

        Args:
            contender: The model.
            executors: Batches of this model that can run at the same time.
        """
        served_ns = min((seat.served_ns for seat in self.seats), default=0)
        seat = Seat(self, contender, executors, served_ns)
        self.seats.append(seat)
        self._compare()
        return seat

    def leave(self, seat: "Seat") -> None:
        """Let a model take part no more; it runs nothing."""
        self.seats.remove(seat)
        self._compare()

    def change(self, by: int) -> None:
        """Take note that executors have come, or left; what those run that left, has ended."""
        self.executors += by
        self.idle += by

    def next_seat(self, now_ns: Nanoseconds) -> "Seat | None":
        """Return who shall dispatch now; ``None``: no executor is idle, or nobody has a batch."""
        self.is_open = False
        if self.idle <= 0 or (self.within is not None and not self.within.may_start(now_ns)):
            return None
        waiting = [
            (urgency_ns, seat)
            for seat in self.seats
            if (urgency_ns := seat.contender.urgency_ns(now_ns)) is not None
        ]
        if not waiting:
            return None
        most_ns = min(seat.served_until(now_ns) for _, seat in waiting) + self.lead_ns
        may = (each for each in waiting if each[1].served_until(now_ns) <= most_ns)
        self.is_open = True
        return min(may, key=_urgency)[1]

    def _compare(self) -> None:
        was_scarce = self.is_scarce
        self.is_scarce = sum(seat.executors for seat in self.seats) > self.executors
        for seat in self.seats if self.is_scarce and not was_scarce else ():
            seat.served_ns = 0  # what one had before was no other's loss


class Seat:
    """One model among those that share executors."""

    __slots__ = (
        "_pauses",
        "_recent_at_ns",
        "_recent_ns",
        "_running",
        "_started_ns",
        "contender",
        "executors",
        "served_ns",
        "turns",
    )

    def __init__(self, turns: Turns, contender: Contender, executors: int, served_ns: int) -> None:
        """Made by ``Turns.join``."""
        self.turns = turns
        self.executors = executors
        self._running = 0
        self.contender = contender
        self.served_ns = served_ns
        """Executor time that it has had, or has forgone."""
        self._started_ns = 0
        """The sum of when its calls that run were started."""
        self._recent_ns = 0.0
        self._recent_at_ns = 0
        self._pauses = Pauses()

    def recent_ns(self, now_ns: Nanoseconds) -> float:
        """Return the executor time of late, which fades away over a second."""
        return self._recent_ns * exp((self._recent_at_ns - now_ns) / FADES_NS)

    def may_start(self, now_ns: Nanoseconds) -> bool:
        """Whether it may take an executor now: one is idle, and nobody else goes first."""
        turns = self.turns
        if turns.within is not None and not turns.within.may_start(now_ns):
            return False
        if not turns.is_scarce:
            return True
        return turns.idle > 0 and turns.next_seat(now_ns) in {None, self}

    def may_probe(self, now_ns: Nanoseconds) -> bool:
        """Whether it may run what was refused, for nobody, when its turn comes."""
        turns = self.turns
        if turns.within is not None and not turns.within.may_probe(now_ns):
            return False
        return not turns.is_scarce or self._pauses.is_over(now_ns)

    def on_probe(self, probe: Request, ran_ns: int, now_ns: Nanoseconds) -> None:
        """Take note that a call with a probe has ended; see ``probes.Pauses``.

        However busy the other models are, this one may learn by nothing else.
        """
        self._pauses.on_ran(probe, ran_ns, now_ns)
        if self.turns.within is not None:
            self.turns.within.on_probe(probe, ran_ns, now_ns)

    def start(self, now_ns: Nanoseconds) -> None:
        """Take an executor."""
        turns = self.turns
        turns.idle -= 1
        self._running += 1
        self._started_ns += now_ns
        if turns.within is not None:
            turns.within.start(now_ns)
        if turns.is_scarce:
            self._level(now_ns)
            self._forget_others()

    def end(self, ran_ns: int, now_ns: Nanoseconds) -> None:
        """Leave an executor.

        Args:
            ran_ns: How long it was used.
            now_ns: Until when.
        """
        self.turns.idle += 1
        self._running -= 1
        self._started_ns -= now_ns - ran_ns
        self.served_ns += ran_ns
        self._recent_ns = self.recent_ns(now_ns) + ran_ns
        self._recent_at_ns = now_ns
        if self.turns.within is not None:
            self.turns.within.end(ran_ns, now_ns)
        if self.turns.is_scarce:
            self.turns.is_open = True
            self._forget_others()

    def served_until(self, now_ns: Nanoseconds) -> int:
        """Return the executor time that it has had, with that of its calls that run."""
        return self.served_ns + self._running * now_ns - self._started_ns

    def _level(self, now_ns: Nanoseconds) -> None:
        """Let whoever runs nothing, and would run nothing, keep no claim on time gone by."""
        idle = []
        least_ns = self.served_ns
        for seat in self.turns.seats:
            if seat._running or seat.contender.urgency_ns(now_ns) is not None:
                least_ns = min(least_ns, seat.served_ns)
            else:
                idle.append(seat)
        for seat in idle:
            seat.served_ns = max(seat.served_ns, least_ns)

    def _forget_others(self) -> None:
        for seat in self.turns.seats:
            if seat is not self:
                seat.contender.forget()


def _urgency(waiting: tuple[int, Seat]) -> int:
    return waiting[0]
