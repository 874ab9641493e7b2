"""A copy of a model version in this process, and the table of its states.

A copy is brought in four steps: its files are fetched and every digest is checked, room is found
for it, it is loaded, it is warmed up. Only then is it ready, and only a ready copy is ever shown
to callers. Whatever goes wrong before leaves it failed, and those who serve meanwhile untouched.
A copy that nobody asks for any more leaves: what was bound to it ends on it first. One that was
still on its way leaves too, for no thread that fetches or loads can be stopped; what it brings is
closed when it comes. A version that is asked for again while a copy of it leaves gets another
copy. The diagram is in ``docs/model-states.md``.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from tidegate.ids import ModelName, Version
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.request import IllegalTransitionError


class State(Enum):
    """Where a copy is."""

    FETCHING = "fetching"
    LOADING = "loading"
    """Its files are here and sound; it waits for room, or is being loaded."""
    WARMING = "warming"
    READY = "ready"
    LEAVING = "leaving"
    FAILED = "failed"
    UNLOADED = "unloaded"


class Event(Enum):
    """What can happen to a copy."""

    FETCHED = "fetched"
    LOADED = "loaded"
    WARMED = "warmed"
    FAULT = "fault"
    UNWANTED = "unwanted"
    GONE = "gone"
    """Nothing of it is left: no request, no thread, no memory."""
    RETRIED = "retried"


TABLE: Final = {
    (State.FETCHING, Event.FETCHED): State.LOADING,
    (State.FETCHING, Event.FAULT): State.FAILED,
    (State.FETCHING, Event.UNWANTED): State.LEAVING,
    (State.LOADING, Event.LOADED): State.WARMING,
    (State.LOADING, Event.FAULT): State.FAILED,
    (State.LOADING, Event.UNWANTED): State.LEAVING,
    (State.WARMING, Event.WARMED): State.READY,
    (State.WARMING, Event.FAULT): State.FAILED,
    (State.WARMING, Event.UNWANTED): State.LEAVING,
    (State.READY, Event.UNWANTED): State.LEAVING,
    (State.LEAVING, Event.GONE): State.UNLOADED,
    (State.FAILED, Event.RETRIED): State.FETCHING,
    (State.FAILED, Event.UNWANTED): State.UNLOADED,  # nothing of it is left already
}

FIRST_RETRY_NS: Final = Nanoseconds(10 * NS_PER_SECOND)
"""Long enough to be no load on the store or on those who serve."""
LONGEST_RETRY_NS: Final = Nanoseconds(300 * NS_PER_SECOND)
"""Short enough for whoever has repaired a file and waits."""
_MOST_DOUBLINGS: Final = 10

COMING: Final = frozenset({State.FETCHING, State.LOADING, State.WARMING})
"""On the way to callers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a copy did not become ready."""

    code: str
    """Of the error, as in ``docs/errors.md``."""
    message: str
    attempts: int = 1
    """In a row, this one included."""
    retry_at_ns: Nanoseconds
    """When it is tried again if it is still asked for."""


@dataclass(slots=True, kw_only=True, eq=False)
class Copy:
    """One copy of one version; two copies of a version are two things."""

    name: ModelName
    version: Version
    state: State = State.FETCHING
    size_bytes: int = 0
    """Of its files; 0 until they are here."""
    may_load: bool = False
    """Whether there is room for it."""
    failure: Failure | None = None
    """Of the latest attempt."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def advance(self, event: Event) -> None:
        """Go where an event leads.

        Raises:
            IllegalTransitionError: It leads nowhere from here; nothing was changed.
        """
        reached = TABLE.get((self.state, event))
        if reached is None:
            raise IllegalTransitionError(
                f"cannot apply {event.name} to a copy of {self} in {self.state.name}"
            )
        self.state = reached

    @property
    def retry_at_ns(self) -> Nanoseconds | None:
        """When it is tried again; ``None`` if it did not fail, or is being tried."""
        waits = self.state is State.FAILED and self.failure is not None
        return self.failure.retry_at_ns if waits and self.failure else None

    @property
    def has_failed(self) -> bool:
        """Whether it failed and nobody has asked since that it be tried again at once."""
        return self.state is State.FAILED and self.failure is not None and self.failure.attempts > 0

    def is_due(self, now_ns: Nanoseconds) -> bool:
        """Say whether a failed one is to be tried again."""
        retry_at_ns = self.retry_at_ns
        return retry_at_ns is not None and retry_at_ns <= now_ns

    def fail(self, code: str, message: str, now_ns: Nanoseconds) -> None:
        """Note why it did not become ready, and pause twice as long as the last time."""
        attempts = 1 + (self.failure.attempts if self.failure else 0)
        pause_ns = min(FIRST_RETRY_NS << min(attempts - 1, _MOST_DOUBLINGS), LONGEST_RETRY_NS)
        self.advance(Event.FAULT)
        self.size_bytes, self.may_load = 0, False
        self.failure = Failure(
            code=code,
            message=message,
            attempts=attempts,
            retry_at_ns=Nanoseconds(now_ns + pause_ns),
        )

    def make_due(self, now_ns: Nanoseconds) -> None:
        """Try a failed one again now, as if for the first time."""
        if self.failure is not None:
            self.failure = replace(self.failure, attempts=0, retry_at_ns=now_ns)
