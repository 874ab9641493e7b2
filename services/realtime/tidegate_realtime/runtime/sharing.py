"""Several drivers of one process on executors that they share."""

from collections.abc import Callable
from typing import TypeAlias

from tidegate.units import Nanoseconds
from tidegate_realtime.core.siblings import nest
from tidegate_realtime.core.turns import LEAD_NS, Seat, Turns

Dispatch: TypeAlias = Callable[[Nanoseconds], None]
"""Lets one model start what it can, at an instant."""


class SharedExecutors:
    """Hands an idle executor to the model whose turn it is.

    Each backend has threads of its own; what is shared is the permission to use one, so that models
    that together have more threads than there are cores do not slow each other down at random.
    """

    def __init__(self, executors: int, *, lead_ns: int = LEAD_NS) -> None:
        """Let nobody run yet.

        Args:
            executors: Batches of all models together that may run at the same time, at least 1.
            lead_ns: As ``Turns`` has it.
        """
        self.turns = Turns(executors, lead_ns=lead_ns)
        self._dispatch: dict[Seat, Dispatch] = {}
        self._is_passing = False
        self._outer: SharedExecutors | None = None

    def nest(self, outer: "SharedExecutors") -> None:
        """Take turns with other models too, all of these as one; see ``core.siblings``."""
        outer.join(nest(self.turns, within=outer.turns), self._begin)
        self._outer = outer

    def leave_outer(self) -> None:
        """Let other models go on without these, which run nothing; or do nothing."""
        if self._outer is not None and self.turns.within is not None:
            self._outer.leave(self.turns.within)

    def join(self, seat: Seat, dispatch: Dispatch) -> None:
        """Let a model take part: who has a seat in ``turns`` is told here when it is his turn."""
        self._dispatch[seat] = dispatch

    def leave(self, seat: Seat) -> None:
        """Let a model take part no more; it runs nothing. Leaving twice is leaving once."""
        if self._dispatch.pop(seat, None) is not None:
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
