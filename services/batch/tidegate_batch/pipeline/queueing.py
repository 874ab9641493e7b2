"""The queue of a store: jobs that wait until a service drives them.

A job is in the queue as long as its small object is there, and that goes only once the job has
ended. So any number of services may look after one store, each may die at any moment, and the
next goes on; two that start one job at once waste a second, since only one gets the job's seat.
"""

from tidegate.errors import JobError
from tidegate.objects.port import ObjectStore
from tidegate.observability import get_logger
from tidegate_batch.core.errors import JobConflictError, JobDrivenError, JobPublishedError
from tidegate_batch.core.names import JobId
from tidegate_batch.core.records import dump, load
from tidegate_batch.core.states import ENDED, STOPPED, State
from tidegate_batch.core.waiting import QUEUE_PREFIX, Waiting, in_order, queue_key
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord

_log = get_logger(__name__)


def enqueue(record: JobRecord, parts: Parts) -> None:
    """Put a job into its store's queue, to be begun or resumed; again changes nothing.

    Raises:
        JobNotFoundError: The store holds no such job.
        JobPublishedError: Nothing is left to do.
        JobConflictError: It was superseded, or is being driven.
    """
    spec, state = record.spec(), record.state()
    if state is not None:
        _refuse(record, state.state, is_driven=state.driver is not None)
    waiting = Waiting(
        job=spec.job,
        priority=spec.wishes.priority,
        queued_at=parts.now(),
        revision=state.revision if state else 0,
    )
    key = queue_key(record.job)
    if (standing := record.store.get(key)) is not None:
        if load(Waiting, standing.body, where=key).revision == waiting.revision:
            return
        record.store.delete(key)  # of a run that has ended, which nobody has removed yet
    record.store.put_if_absent(key, dump(waiting))


def _refuse(record: JobRecord, state: State, *, is_driven: bool) -> None:
    if state is State.PUBLISHED:
        raise JobPublishedError(f"job {record.job} is published; nothing is left to do")
    if state in ENDED - STOPPED:
        raise JobConflictError(f"job {record.job} is {state}: submit a new one")
    if is_driven:
        raise JobDrivenError(f"job {record.job} is {state}, and somebody drives it already")


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


def leave_queue(store: ObjectStore, job: JobId) -> None:
    """Remove a job that has ended."""
    store.delete(queue_key(job))
