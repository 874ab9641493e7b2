"""A request and the table of its states.

A request arrives and is admitted or refused at once, or stands by until it is clear whether there
is a place for it (``standby``). It waits until a batch takes its first rows,
and runs until the batch with its last rows has ended; a request larger than the cap runs in
pieces, so that one that runs may still have rows in the queue. It ends in exactly one of five
ways, and what happens to its rows afterwards changes nothing: rows of a caller who left, or whose
deadline passed, are computed with their batch and dropped. Rows that wait cannot fail, because no
backend has seen them; where the last executor is lost while the server shuts down, and they could
wait for ever, they are refused after all. A call whose rows all were left so is terminated, where
the backend can. The diagram is in ``docs/request-states.md``.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidegate.units import Nanoseconds


class State(Enum):
    """Where a request is, or how it ended."""

    ARRIVING = "arriving"
    STANDBY = "standby"
    WAITING = "waiting"
    RUNNING = "running"
    ANSWERED = "answered"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"

    # By identity, in C: Enum's own hash is a Python call, and made a look-up 2.4 times as slow.
    __hash__ = object.__hash__


class Event(Enum):
    """What can happen to a request."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    HELD = "held"
    """Neither admitted nor refused for the time being."""
    BATCH_STARTED = "batch started"
    """With its first rows."""
    BATCH_ENDED = "batch ended"
    """With its last rows."""
    BACKEND_FAILED = "backend failed"
    DEADLINE_PASSED = "deadline passed"
    CALLER_LEFT = "caller left"

    __hash__ = object.__hash__  # as above


TABLE: Final = {
    (State.ARRIVING, Event.ADMITTED): State.WAITING,
    (State.ARRIVING, Event.REFUSED): State.REJECTED,
    (State.ARRIVING, Event.HELD): State.STANDBY,
    (State.STANDBY, Event.ADMITTED): State.WAITING,
    (State.STANDBY, Event.REFUSED): State.REJECTED,
    (State.STANDBY, Event.CALLER_LEFT): State.CANCELLED,
    (State.WAITING, Event.BATCH_STARTED): State.RUNNING,
    (State.WAITING, Event.DEADLINE_PASSED): State.EXPIRED,
    (State.WAITING, Event.CALLER_LEFT): State.CANCELLED,
    (State.WAITING, Event.REFUSED): State.REJECTED,  # nothing is left that could run it
    (State.RUNNING, Event.BATCH_ENDED): State.ANSWERED,
    (State.RUNNING, Event.CALLER_LEFT): State.CANCELLED,  # its rows are computed and dropped
    (State.RUNNING, Event.DEADLINE_PASSED): State.EXPIRED,  # likewise; its 504 comes in time
    (State.RUNNING, Event.BACKEND_FAILED): State.FAILED,
}


class IllegalTransitionError(RuntimeError):
    """An event that cannot happen in this state: a bug. Nothing was changed."""


def advance(state: State, event: Event) -> State:
    """Look up where an event leads.

    Raises:
        IllegalTransitionError: The table has no such pair.
    """
    after = TABLE.get((state, event))
    if after is None:
        raise IllegalTransitionError(f"cannot apply {event.name} to a request in {state.name}")
    return after


# Not frozen, and compared by identity: a frozen one costs 0.8 µs, and one is made per request.
@dataclass(slots=True, eq=False)
class Request:
    """One caller's rows; whoever drives the batcher makes it and may read it at any time."""

    rows: int
    """At least 1."""
    shape_key: Hashable
    """Only requests with equal keys share a batch: those whose rows have the same shapes."""
    arrived_at_ns: Nanoseconds
    deadline_at_ns: Nanoseconds
    """From this instant on there is no answer any more."""
    priority: int = 2
    """1 highest, 2 normal, 3 bulk: which share of the executors it competes in."""
    sheddable: bool = True
    """Whether it may be refused, expired or dropped. A record of a stream may not; it is only
    counted as late, and then ranks behind everybody else."""
    size_bytes: int = 0
    """What its inputs hold of memory until it ends."""
    is_probe: bool = False
    """Stands in for a request that was refused, to learn whether that was right."""
    is_newest_first: bool = False
    """Once it is late, whether newer ones go before it: for callers who wait, of whom the oldest
    have waited in vain. Records of a stream keep their order."""
    state: State = State.ARRIVING
    """Changed by the batcher only, as are the fields below."""
    waiting_rows: int = 0
    """Rows in the queue: the last ones of the request, and not yet in any batch."""
    unanswered_rows: int = 0
    """Rows that no ended batch has answered."""
    is_late: bool = False
    """Its deadline has passed, and it may not be shed: it waits behind the others."""
    is_patient: bool = False
    """It has more time than the objective, is bulk, or may not be shed: no batch grows beyond
    what leaves room for others for its sake."""
    reserved_rows: int = 0
    """The size of its batch that admission has reckoned with; 0 if it has not reckoned."""
    started_at_ns: Nanoseconds | None = None
    """When the batch with its first rows started."""
    predicted_at_ns: Nanoseconds | None = None
    """By when its answer was foretold when it was admitted, with the objective's probability;
    ``None``: it was not."""
    stands_for_rows: int = 0
    """Of a probe: the rows of the request that was refused, which may be more than its own."""

    @property
    def half_time_at_ns(self) -> int:
        """When half of its time has passed: whoever is refused by then can still go elsewhere."""
        return (self.arrived_at_ns + self.deadline_at_ns) // 2


def check_arrival(request: Request) -> None:
    """Refuse what cannot arrive.

    Raises:
        ValueError: It has no rows.
        IllegalTransitionError: It has arrived before.
    """
    if request.state is not _ARRIVING:
        raise IllegalTransitionError(f"a request in {request.state.name} cannot arrive")
    if request.rows < 1:
        raise ValueError(f"a request needs at least 1 row, found {request.rows}")


_ARRIVING: Final = State.ARRIVING
