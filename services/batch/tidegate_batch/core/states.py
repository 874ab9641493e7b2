"""The life of a job as a table; every move is one compare-and-swap of ``state.json``.

::

    validating ─► planned ─► running ─► publishing ─► published
         │           │          │            │
         └───────────┴──────────┤            └─► failed (committed data is missing)
                                ▼
                       failed | cancelled ─► running      (resume)
                                          └► superseded   (its output was taken over)

Once ``publishing`` is entered the job can only be completed: whatever else goes wrong there
leaves it where it is, for the next driver to repeat. So a job that somebody may still be
publishing is never cancelled, failed or superseded, and a prefix changes hands only when no
reader has seen a row of it. The one exception is committed data that was deleted from outside:
no driver could complete that, and its prefix is not handed on either.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """How far a job is."""

    VALIDATING = "validating"
    """Inputs and output are being looked at; nothing is spent yet."""
    PLANNED = "planned"
    """The chunks are fixed."""
    RUNNING = "running"
    """Chunks are scored and committed."""
    PUBLISHING = "publishing"
    """Every chunk is committed; the output is being put together."""
    PUBLISHED = "published"
    """The manifest stands; final."""
    FAILED = "failed"
    """Stopped by an error; can be resumed."""
    CANCELLED = "cancelled"
    """Stopped by a person; can be resumed."""
    SUPERSEDED = "superseded"
    """Another job took its output over; final."""


class Event(StrEnum):
    """What moves a job."""

    PLANNED = "planned"
    STARTED = "started"
    ALL_COMMITTED = "all_committed"
    MANIFEST_WRITTEN = "manifest_written"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DATA_MISSING = "data_missing"
    RESUMED = "resumed"
    SUPERSEDED = "superseded"


TABLE: Final = {
    (State.VALIDATING, Event.PLANNED): State.PLANNED,
    (State.VALIDATING, Event.FAILED): State.FAILED,
    (State.VALIDATING, Event.CANCELLED): State.CANCELLED,
    (State.PLANNED, Event.STARTED): State.RUNNING,
    (State.PLANNED, Event.FAILED): State.FAILED,
    (State.PLANNED, Event.CANCELLED): State.CANCELLED,
    (State.RUNNING, Event.ALL_COMMITTED): State.PUBLISHING,
    (State.RUNNING, Event.FAILED): State.FAILED,
    (State.RUNNING, Event.CANCELLED): State.CANCELLED,
    (State.PUBLISHING, Event.MANIFEST_WRITTEN): State.PUBLISHED,
    (State.PUBLISHING, Event.DATA_MISSING): State.FAILED,
    (State.FAILED, Event.RESUMED): State.RUNNING,  # its first step is whatever was not done yet
    (State.FAILED, Event.SUPERSEDED): State.SUPERSEDED,
    (State.CANCELLED, Event.RESUMED): State.RUNNING,
    (State.CANCELLED, Event.SUPERSEDED): State.SUPERSEDED,
}

STOPPED: Final = frozenset({State.FAILED, State.CANCELLED})
"""Nobody drives it, and somebody may resume it."""
ENDED: Final = STOPPED | {State.PUBLISHED, State.SUPERSEDED}
"""Nothing more happens unless a person asks."""


class IllegalTransitionError(Exception):
    """A bug: an event reached a job in a state where it means nothing."""


def advance(state: State, event: Event) -> State:
    """Return the state after an event.

    Raises:
        IllegalTransitionError: The table has no such move; nothing was changed.
    """
    after = TABLE.get((state, event))
    if after is None:
        raise IllegalTransitionError(f"cannot apply {event.name} to a job in {state.name}")
    return after
