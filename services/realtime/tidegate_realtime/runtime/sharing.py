"""Several drivers of one process on executors that they share."""

from collections.abc import Callable
from typing import TypeAlias

from tidegate.units import Nanoseconds
from tidegate_realtime.core.siblings import nest
from tidegate_realtime.core.turns import LEAD_NS, Seat, Turns

Dispatch: TypeAlias = Callable[[Nanoseconds], None]
"""Lets one model start what it can, at an instant."""
Change: TypeAlias = Callable[[int, Nanoseconds], None]
"""Tells one model how many executors have come, or below 0 have left, and when."""


class SharedExecutors:
    """Hands an idle executor to the model whose turn it is.

    Each backend has threads of its own; what is shared is the permission to use one, so that models
    that together have more threads than there are cores do not slow each other down at random.
    """

    def __init__(
        self, executors: int, *, lead_ns: int = LEAD_NS, is_one_backend: bool = False
    ) -> None:
        """Let nobody run yet.

        Args:
            executors: Batches of all models together that may run at the same time, at least 1.
            lead_ns: As ``Turns`` has it.
            is_one_backend: Whether they have the same threads too: what one loses, all do.
        """
        self.turns = Turns(executors, lead_ns=lead_ns)
        self._is_one_backend = is_one_backend
        self._dispatch: dict[Seat, Dispatch] = {}
        self._change: dict[Seat, Change] = {}
        self._is_passing = False
        self._outer: SharedExecutors | None = None

    def nest(self, outer: "SharedExecutors") -> None:
        """Take turns with other models too, all of these as one; see ``core.siblings``."""
        outer.join(nest(self.turns, within=outer.turns), self._begin, _nobody)
        self._outer = outer

    def leave_outer(self) -> None:
        """Let other models go on without these, which run nothing; or do nothing."""
        if self._outer is not None and self.turns.within is not None:
            self._outer.leave(self.turns.within)

    def join(self, seat: Seat, dispatch: Dispatch, change: Change) -> None:
        """Let a model take part: who has a seat in ``turns`` is told here when it is his turn."""
        self._dispatch[seat] = dispatch
        self._change[seat] = change

    def tell_others(self, by: int, now_ns: Nanoseconds, *, known_to: Seat | None) -> None:
        """Say that executors of one backend have come or left, to all whose they are too.

        Nobody's turn comes before everybody knows.
        """
        if not self._is_one_backend:
            return
        was_passing, self._is_passing = self._is_passing, True
        self.turns.change(by)
        try:
            for seat, change in tuple(self._change.items()):
                if seat is not known_to:
                    change(by, now_ns)
        finally:
            self._is_passing = was_passing

    def leave(self, seat: Seat) -> None:
        """Let a model take part no more; it runs nothing. Leaving twice is leaving once."""
        if self._dispatch.pop(seat, None) is not None:
            del self._change[seat]
            self.turns.leave(seat)

    def pass_on(self, now_ns: Nanoseconds) -> None:
        """Let everybody start whose turn it is; to be called after each event of any model."""
        if self._is_passing:
            return  # the loop below goes on
        if self.turns.is_open:  # else nobody waits for an executor that is idle
            self._pass_on(now_ns)
        if self._outer is not None:
            self._outer.pass_on(now_ns)

    def _begin(self, now_ns: Nanoseconds) -> None:
        self.turns.is_open = True
        self.pass_on(now_ns)

    def _pass_on(self, now_ns: Nanoseconds) -> None:
        self._is_passing = True
        try:
            told = None
            while (seat := self.turns.next_seat(now_ns)) is not None:
                if told == (seat, self.turns.idle):
                    break  # it has started nothing, which no model does; better than for ever
                told = (seat, self.turns.idle)
                self._dispatch[seat](now_ns)
        finally:
            self._is_passing = False


def _nobody(by: int, now_ns: Nanoseconds) -> None:
    """Tell no part of a model of executors of other ones."""
