"""Stopping a job on purpose; what is committed stays, and ``resume`` goes on from there.

One compare-and-swap of the state, from any of the three states in which no reader can have seen a
row. A driver looks at the state twice a second and ends its workers when it finds that it has
moved; whatever a zombie commits after that is one chunk less for the next driver. A job that was
stopped before and waits to be resumed is taken out of the queue.
"""

from tidegate_batch.core.errors import JobCancelledError, JobConflictError, JobPublishedError
from tidegate_batch.core.records import JobFailure, JobState
from tidegate_batch.core.states import STOPPED, Event, State
from tidegate_batch.pipeline.identity import is_surely_gone
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.queueing import take_out
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import first_state


def cancel(record: JobRecord, parts: Parts, *, by: str) -> JobState:
    """Cancel a job, however far it is before it publishes; again changes nothing.

    A job that was stopped before and waits to be resumed leaves the queue, and stays as it is.

    Args:
        record: The job's.
        parts: For the time that is written down.
        by: Who asks, for whoever finds the job cancelled.

    Raises:
        JobNotFoundError: The store holds no such job.
        JobPublishedError: Its output stands already.
        JobConflictError: It is being published, was superseded, or has failed and waits in no
            queue.
    """
    record.spec()
    reason = JobFailure(code=JobCancelledError.code, message=f"cancelled by {by}")

    def cancelled(now: JobState) -> JobState:
        if now.state is State.CANCELLED:
            return now
        _refuse(record, now)
        return now.moved(Event.CANCELLED, parts.now(), failure=reason)

    before = record.state() or record.put_state(first_state())
    if before.state in STOPPED and (take_out(record, before) or before.state is State.CANCELLED):
        return before
    return record.change_state(cancelled)


def _refuse(record: JobRecord, now: JobState) -> None:
    match now.state:
        case State.VALIDATING | State.PLANNED | State.RUNNING | State.CANCELLED:
            return
        case State.PUBLISHED:
            raise JobPublishedError(f"job {record.job} is published; nothing is left to cancel")
        case State.PUBLISHING:
            is_driven = now.driver is not None and not is_surely_gone(now.driver)
            raise JobConflictError(
                f"job {record.job} is being published: every row is scored, and readers may see "
                "some already, so it is completed. "
                + ("It takes a moment: see" if is_driven else "Its driver is gone, so type")
                + f" 'tidegate batch {'status' if is_driven else 'resume'} {record.job}'."
            )
        case State.FAILED | State.SUPERSEDED:
            raise JobConflictError(f"job {record.job} is {now.state}; nobody works on it any more")
