"""``queue/<job>.<revision>.json``: a job that waits for a service, and whose turn is next."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

import msgspec

from tidegate_batch.core.names import JobId
from tidegate_batch.core.records import JobState
from tidegate_batch.core.states import ENDED, STOPPED

QUEUE_PREFIX: Final = "queue/"


class Waiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Written when a job is handed to the queue, removed when it has ended."""

    schema: Literal[1] = 1
    job: str
    priority: int
    """1 highest, 2 normal, 3 bulk."""
    queued_at: str
    revision: int
    """Of the state that the job is to be resumed from, if it had been stopped when it was queued;
    0 if not. One that is stopped at another revision has ended again."""


class Turn(StrEnum):
    """What a service does about a job in the queue."""

    START = "start"
    WAIT = "wait"
    """Somebody drives it."""
    OVER = "over"


def places_prefix(job: JobId) -> str:
    """Return what the names of a job's places in the queue begin with."""
    return f"{QUEUE_PREFIX}{job}."


def queue_key(job: JobId, revision: int) -> str:
    """Return the object that keeps a job in the queue.

    A job that is queued again gets another, so that whoever removes what is over never removes
    what was queued meanwhile.
    """
    return f"{places_prefix(job)}{revision}.json"


def revision_to_resume(state: JobState | None) -> int:
    """Return the revision that a job is to be queued with."""
    return state.revision if state is not None and state.state in STOPPED else 0


def decide(waiting: Waiting, state: JobState | None, *, is_driver_dead: bool) -> Turn:
    """Say what is to be done about a job.

    Args:
        waiting: Its place in the queue.
        state: How far it is; ``None`` if nobody has begun.
        is_driver_dead: Whether its driver, if it has one, is known to be dead.
    """
    if state is None:
        return Turn.START
    if state.state in STOPPED and state.revision == waiting.revision:
        return Turn.START
    if state.state in ENDED:
        return Turn.OVER
    return Turn.START if state.driver is None or is_driver_dead else Turn.WAIT


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Sort by priority, then by who came first."""
    return sorted(waiting, key=lambda job: (job.priority, job.queued_at, job.job))
