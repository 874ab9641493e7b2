"""Looking at a job without touching it."""

from collections.abc import Collection
from typing import Final, Literal

import msgspec

from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.errors import JobNotDrivenError
from tidegate_batch.core.lease import LeaseWatch
from tidegate_batch.core.records import Driver, JobFailure, JobSpec, JobState, PinnedModel, Plan
from tidegate_batch.core.states import ENDED, STOPPED, State
from tidegate_batch.pipeline.identity import is_surely_gone
from tidegate_batch.pipeline.pacing import Pace, PaceWatch
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.queueing import is_queued
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.ports import Display

_LOOK_NS = 1_000_000_000
SUBMITTED: Final = "submitted"
"""Of a job whose submission died before it wrote the first state."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job as people see it; also the JSON of ``tidegate batch status``."""

    job: str
    state: str
    """Of ``State``, or ``SUBMITTED``."""
    model: PinnedModel
    inputs: tuple[str, ...]
    output: str
    rows: int | None
    """All rows of the input; ``None`` until they are counted."""
    rows_committed: int
    chunks: int | None
    chunks_committed: int
    driver: Driver | None
    driver_is: Literal["unknown", "gone"] | None
    """``gone`` if its process on this machine is known to have ended; ``None`` without one."""
    failure: JobFailure | None
    rows_dlq: int | None
    """Rows without an answer; ``None`` until the job is published."""
    created_at: str

    @property
    def is_being_scored(self) -> bool:
        """Somebody is at its rows, as far as can be known; else it has no speed."""
        return self.state == State.RUNNING and not self.needs_resume

    @property
    def needs_resume(self) -> bool:
        """It is not done, and nothing will happen by itself."""
        unfinished = self.state not in {State.PUBLISHED, State.SUPERSEDED}
        return unfinished and (self.driver is None or self.driver_is == "gone")


def status_of(record: JobRecord) -> JobStatus:
    """Read a job's record.

    Raises:
        JobNotFoundError: The store holds no such job.
    """
    spec, state, plan = record.spec(), record.state(), record.plan()
    committed = record.committed_chunks() if plan else set()
    return describe_job(spec, state, plan, committed)


def look_at(record: JobRecord, pace: PaceWatch) -> tuple[JobStatus, Pace | None]:
    """Read how far a job is and, while it is being scored, how fast.

    Raises:
        JobNotFoundError: The store holds no such job.
    """
    spec, state, plan = record.spec(), record.state(), record.plan()
    committed = record.committed_chunks() if plan else set()
    status = describe_job(spec, state, plan, committed)
    if plan is None or state is None or not status.is_being_scored:
        return status, None
    return status, pace.look(committed, rows=plan.rows, epoch=state.epoch)


def describe_job(
    spec: JobSpec, state: JobState | None, plan: Plan | None, committed: Collection[str]
) -> JobStatus:
    """Put together what was read of a job's record."""
    driver = state.driver if state else None
    known = [chunk for chunk in plan.chunks if chunk.chunk in committed] if plan else []
    return JobStatus(
        job=spec.job,
        state=state.state if state else SUBMITTED,
        model=spec.model,
        inputs=spec.request.inputs,
        output=spec.request.output,
        rows=plan.rows if plan else None,
        rows_committed=sum(chunk.rows for chunk in known),
        chunks=len(plan.chunks) if plan else None,
        chunks_committed=len(known),
        driver=driver,
        driver_is=None if driver is None else ("gone" if is_surely_gone(driver) else "unknown"),
        failure=state.failure if state else None,
        rows_dlq=state.rows_dlq if state else None,
        created_at=spec.created_at,
    )


def watch(record: JobRecord, *, parts: Parts, display: Display) -> JobStatus:
    """Look until the job has ended, and return how.

    Raises:
        JobNotFoundError: The store holds no such job.
        JobNotDrivenError: Its driver is dead, so that it would never end.
    """
    seen: LeaseWatch | None = None
    spec, plan = record.spec(), None
    pace = PaceWatch(record, parts, finish_by=spec.wishes.finish_by)
    while True:
        state = record.state()
        plan = plan or record.plan()
        committed = record.committed_chunks() if plan else set()
        status = describe_job(spec, state, plan, committed)
        if status.rows is not None and state is not None:
            _show(status, display, pace.look(committed, rows=status.rows, epoch=state.epoch))
        else:
            display.stage(status.state)
        if status.state in ENDED:
            return status
        now_ns, revision = parts.clock.now_ns(), state.revision if state else 0
        seen = (seen or LeaseWatch(revision=revision, since_ns=now_ns)).observe(revision, now_ns)
        is_dead = status.driver_is == "gone" or seen.is_expired(now_ns)
        if is_dead and not is_queued(record):
            raise JobNotDrivenError(
                f"job {spec.job} is {status.state}, and nobody drives it any more. Go on with "
                f"'tidegate batch resume {spec.job}'."
            )
        parts.pause(_LOOK_NS)


def _show(status: JobStatus, display: Display, pace: Pace) -> None:
    assert status.rows is not None
    assert status.chunks is not None
    if status.state != State.RUNNING:
        display.stage(status.state)
        if status.state in {*STOPPED, State.SUPERSEDED, State.PUBLISHING}:  # nothing counts up
            return
    totals = QueueStatistics(
        chunks=status.chunks,
        pending=status.chunks - status.chunks_committed,
        leased=0,
        committed=status.chunks_committed,
        rows=status.rows,
        rows_committed=status.rows_committed,
        leases_lost=0,
    )
    display.progress(
        totals,
        workers=pace.workers or None if status.is_being_scored else None,
        outlook=pace.outlook if status.is_being_scored else None,
        rows_dlq=pace.rows_dlq,
    )
