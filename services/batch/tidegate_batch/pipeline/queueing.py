"""The queue of a store: jobs that wait until a service drives them.

A job is in the queue as long as its small object is there, and that goes only once the job has
ended. So any number of services may look after one store, each may die at any moment, and the
next goes on; two that start one job at once waste a second, since only one gets the job's seat.
"""

import msgspec

from tidegate.errors import JobError
from tidegate.objects.port import ObjectStore
from tidegate.observability import get_logger
from tidegate_batch.core.errors import JobDrivenError, JobNotDrivenError
from tidegate_batch.core.names import JobId
from tidegate_batch.core.records import JobFailure, JobState, dump, load
from tidegate_batch.core.states import ENDED, Event, State
from tidegate_batch.core.waiting import (
    QUEUE_PREFIX,
    Waiting,
    in_order,
    places_prefix,
    queue_key,
    revision_to_resume,
)
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import refuse_to_resume

_log = get_logger(__name__)


def enqueue(record: JobRecord, parts: Parts) -> None:
    """Put a job into its store's queue, to be begun or resumed; again changes nothing.

    A job that somebody drives may be queued, too: it is begun anew if that driver dies.

    Raises:
        JobNotFoundError: The store holds no such job.
        JobPublishedError: Nothing is left to do.
        JobConflictError: It was superseded, or has lost committed rows.
    """
    spec, state = record.spec(), record.state()
    if state is not None:
        refuse_to_resume(record, state)
    revision = revision_to_resume(state)
    waiting = Waiting(
        job=spec.job, priority=spec.wishes.priority, queued_at=parts.now(), revision=revision
    )
    record.store.put_if_absent(queue_key(record.job, revision), dump(waiting))


def is_queued(record: JobRecord) -> bool:
    """Say whether a service will see to a job."""
    return any(True for _ in record.store.keys(places_prefix(record.job)))


def waiting_jobs(store: ObjectStore) -> list[Waiting]:
    """List the queue, whose turn is next first; what cannot be read is logged and left."""
    found = []
    for key in list(store.keys(QUEUE_PREFIX)):
        if (stored := store.get(key)) is None:
            continue
        try:
            found.append(load(Waiting, stored.body, where=f"{key} in {store.url}"))
        except JobError as error:
            _log.error("queue_unreadable", reason=str(error))
    return in_order(found)


def leave_queue(store: ObjectStore, waiting: Waiting) -> None:
    """Remove a place in the queue of which it was decided that it is over."""
    store.delete(queue_key(JobId(waiting.job), waiting.revision))


def take_out(record: JobRecord, stopped: JobState) -> bool:
    """Let a job that was stopped not be resumed, and say whether it would have been.

    Its places of before stay: whoever works off the queue tells of each end.
    """
    key = queue_key(record.job, revision_to_resume(stopped))
    if record.store.head(key) is None:
        return False
    record.store.delete(key)
    return True


def give_up(record: JobRecord, waiting: Waiting, seen: JobState | None, parts: Parts) -> None:
    """Let a job leave the queue that no driver moves on; its state says so, if it has one.

    Raises:
        JobDrivenError: It has moved since it was seen.
    """
    message = (
        "driver after driver ended before the job got on. What they said stands in "
        f"jobs/{record.job}.log of the service's cache_dir; mend that, then 'tidegate batch "
        f"resume {record.job}'"
    )
    reason = JobFailure(code=JobNotDrivenError.code, message=message)

    def given_up(now: JobState) -> JobState:
        if seen is None or now.revision != seen.revision:
            raise JobDrivenError(f"job {record.job} has moved on just now")
        if now.state is State.PUBLISHING:  # it can only be completed
            return msgspec.structs.replace(now, failure=reason, driver=None)
        return now.moved(Event.FAILED, parts.now(), failure=reason)

    if seen is not None and seen.state not in ENDED:
        record.change_state(given_up)
    leave_queue(record.store, waiting)
    _log.error("job_given_up", job_id=record.job, reason=message)
