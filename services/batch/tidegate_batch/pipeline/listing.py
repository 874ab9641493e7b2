"""All jobs of a store, the newest first."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.errors import JobError
from tidegate.ids import InvalidIdError
from tidegate.objects.port import ObjectStore
from tidegate.observability import get_logger
from tidegate_batch.core.names import JobId, parse_job_id
from tidegate_batch.core.records import JobSpec, JobState
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.watching import SUBMITTED, JobStatus, describe_job

_log = get_logger(__name__)
_CONCURRENT_READS: Final = 16
"""A thousand records one by one would take a minute where a reply takes 20 ms."""
_JOBS: Final = "jobs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """A job as two small objects tell."""

    record: JobRecord
    spec: JobSpec
    state: JobState | None

    @property
    def state_name(self) -> str:
        """As in ``JobStatus``."""
        return self.state.state if self.state else SUBMITTED

    def status(self) -> JobStatus:
        """Read its plan and list its commits too, and describe it."""
        plan = self.record.plan()
        committed = self.record.committed_chunks() if plan else set()
        return describe_job(self.spec, self.state, plan, committed)


def known_jobs(store: ObjectStore) -> list[KnownJob]:
    """Find all jobs, the newest first; one whose record is damaged is logged and left out.

    One listing and two small reads for each job, however many rows they have.
    """
    found = _job_ids(store)
    with ThreadPoolExecutor(_CONCURRENT_READS) as threads:
        jobs = list(threads.map(partial(_read, store), found))
    known = [job for job in jobs if job is not None]
    return sorted(known, key=lambda job: (job.spec.created_at, job.spec.job), reverse=True)


def list_jobs(
    store: ObjectStore,
    *,
    states: Collection[str] = (),
    models: Collection[str] | None = None,
    tenant: str | None = None,
    limit: int,
) -> tuple[list[JobStatus], int]:
    """Describe the newest jobs.

    Args:
        store: Where their records lie.
        states: Only jobs in one of these; all of them without any.
        models: Only jobs of one of these; ``None`` for all.
        tenant: Only jobs of this one; ``None`` for all.
        limit: How many at most.

    Returns:
        At most ``limit`` jobs, the newest first, and how many there are in all.
    """
    jobs = [
        job
        for job in known_jobs(store)
        if (not states or job.state_name in states)
        and (models is None or job.spec.model.name in models)
        and tenant in {None, job.spec.tenant}
    ]
    with ThreadPoolExecutor(_CONCURRENT_READS) as threads:
        return list(threads.map(KnownJob.status, jobs[:limit])), len(jobs)


def _job_ids(store: ObjectStore) -> list[JobId]:
    found = []
    for folder in store.folders(_JOBS):
        with suppress(InvalidIdError):  # nothing of ours
            found.append(parse_job_id(folder.removeprefix(_JOBS).removesuffix("/")))
    return found


def _read(store: ObjectStore, job: JobId) -> KnownJob | None:
    record = JobRecord(store, job)
    try:
        return KnownJob(record=record, spec=record.spec(), state=record.state())
    except JobError as error:
        _log.warning("job_unreadable", job_id=job, reason=str(error))
        return None
