"""Working off the queue of a store: which job is begun when, and by which process."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.errors import TidegateError
from tidegate.objects.port import ObjectStore
from tidegate.observability import get_logger
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.lease import LeaseWatch
from tidegate_batch.core.names import JobId
from tidegate_batch.core.records import JobState
from tidegate_batch.core.waiting import Turn, Waiting, decide
from tidegate_batch.pipeline.identity import is_surely_gone
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.queueing import give_up, leave_queue, waiting_jobs
from tidegate_batch.pipeline.record import JobRecord

_log = get_logger(__name__)
_LONGEST_PAUSE_S: Final = 60
"""Between two starts of one job whose driver dies at once."""

_MOST_STARTS: Final = 20
"""Of one job that does not get on meanwhile. With the pauses that is a quarter of an hour, longer
than a driver waits for a store that is away."""

Start = Callable[[JobId], int]
"""Starts a process that drives a job, and returns its pid."""
IsOver = Callable[[int], bool]


def has_ended(pid: int) -> bool:
    """Say whether a child process has ended, and let go of it then."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def leave_untold(_: JobId) -> None:
    """Tell nobody of a job that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starts:
    """How often a job was begun since it last got on."""

    count: int
    progress: object


def _progress(record: JobRecord, state: JobState | None) -> object:
    """Return what differs once a job has got on."""
    return (state.moves, len(record.committed_chunks())) if state else None


class QueueRunner:
    """Looks after one store; for one thread. Drivers go on when it ends, and another finds them."""

    def __init__(
        self,
        store: ObjectStore,
        parts: Parts,
        *,
        start: Start,
        concurrent: int,
        on_over: Callable[[JobId], object] = leave_untold,
        is_over: IsOver = has_ended,
    ) -> None:
        """Set up.

        Args:
            store: Whose queue.
            parts: For the clock.
            start: Begins a job.
            concurrent: How many jobs at once, of those that this runner has begun.
            on_over: Told of each job that leaves the queue; must not block.
            is_over: Whether a process that ``start`` began has ended.
        """
        self._store = store
        self._parts = parts
        self._start = start
        self._concurrent = concurrent
        self._on_over = on_over
        self._is_over = is_over
        self._own: dict[JobId, int] = {}
        self._leases: dict[JobId, LeaseWatch] = {}
        self._starts: dict[JobId, _Starts] = {}
        self._not_before_ns: dict[JobId, int] = {}

    @property
    def own(self) -> Mapping[JobId, int]:
        """Jobs that this runner has begun and whose process lives."""
        return self._own

    def look(self) -> None:
        """Take one look at the queue, and begin whatever may begin."""
        self._own = {job: pid for job, pid in self._own.items() if not self._is_over(pid)}
        for waiting in waiting_jobs(self._store):
            try:
                self._see_to(waiting)
            except TidegateError as error:  # of one job: the others' turn comes all the same
                _log.warning("job_not_seen_to", job_id=waiting.job, reason=str(error))

    def _see_to(self, waiting: Waiting) -> None:
        job = JobId(waiting.job)
        if job in self._own:
            return
        record = JobRecord(self._store, job)
        state = record.state()
        match decide(waiting, state, is_driver_dead=self._is_dead(job, state)):
            case Turn.OVER:
                leave_queue(self._store, waiting)
                self._let_go(job)
            case Turn.START if len(self._own) < self._concurrent:
                self._begin(record, waiting, state)
            case Turn.START | Turn.WAIT:
                return

    def _is_dead(self, job: JobId, state: JobState | None) -> bool:
        """Say whether a job has a driver that is gone, or silent for a whole lease."""
        if state is None or state.driver is None:
            return False
        now_ns = self._parts.clock.now_ns()
        before = self._leases.get(job, LeaseWatch(revision=state.revision, since_ns=now_ns))
        seen = self._leases[job] = before.observe(state.revision, now_ns)
        return is_surely_gone(state.driver) or seen.is_expired(now_ns)

    def _begin(self, record: JobRecord, waiting: Waiting, state: JobState | None) -> None:
        job, now_ns = record.job, self._parts.clock.now_ns()
        if now_ns < self._not_before_ns.get(job, now_ns):
            return
        before, now = self._starts.get(job), _progress(record, state)
        starts = before.count + 1 if before and before.progress == now else 1
        if starts > _MOST_STARTS:
            give_up(record, waiting, state, self._parts)
            self._let_go(job)
            return
        pause_s = min(2**starts, _LONGEST_PAUSE_S)
        self._not_before_ns[job] = now_ns + pause_s * NS_PER_SECOND
        self._own[job] = self._start(job)
        self._starts[job] = _Starts(count=starts, progress=now)  # one that failed is no start
        _log.info("job_begun", job_id=job, pid=self._own[job], starts=starts)

    def _let_go(self, job: JobId) -> None:
        self._on_over(job)
        for known in (self._leases, self._starts, self._not_before_ns):
            known.pop(job, None)
