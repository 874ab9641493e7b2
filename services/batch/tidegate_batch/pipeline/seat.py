"""The driver's seat: the right to move one job on, kept by renewing a lease and fenced by an epoch.

Correctness never depends on it: two drivers at once would waste work, and every row would still
be committed once.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tidegate.errors import PartUnavailableError, TidegateError
from tidegate.observability import get_logger
from tidegate.units import ns_to_seconds
from tidegate_batch.core.errors import (
    CommittedDataMissingError,
    DriverReplacedError,
    JobCancelledError,
    JobConflictError,
    JobDrivenError,
    JobPublishedError,
)
from tidegate_batch.core.lease import RENEW_NS, LeaseWatch
from tidegate_batch.core.records import Driver, JobFailure, JobState
from tidegate_batch.core.states import ENDED, STOPPED, Event, State
from tidegate_batch.pipeline.identity import is_surely_gone
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord

_log = get_logger(__name__)
_LOOK_NS = 1_000_000_000
"""Between two looks at somebody else's lease: a renewal is seen at most this much late."""
_NOTICE_NS = 500_000_000
"""Between two looks at one's own state: a cancel stops the workers within a second."""


class Seat:
    """One driver's turn at a job."""

    def __init__(
        self,
        record: JobRecord,
        state: JobState,
        parts: Parts,
        *,
        failure_before: JobFailure | None = None,
    ) -> None:
        self.record = record
        self.epoch = state.epoch
        self.failure_before = failure_before
        """Why the job had failed when this driver took it up, if it had."""
        self._parts = parts
        self._state = state
        self._lost: TidegateError | None = None
        self._one_change = threading.RLock()
        """The renewing thread must not put back an older state than the last move's."""

    @property
    def state(self) -> State:
        """Where this driver last moved the job, or found it."""
        return self._state.state

    def move(
        self, event: Event, *, failure: JobFailure | None = None, rows_dlq: int | None = None
    ) -> None:
        """Move the job on; with a failure if it stops, with its bad rows if it is published.

        Raises:
            DriverReplacedError: It is not this driver's to move any more.
        """
        self._change(
            lambda now: now.moved(event, self._parts.now(), failure=failure, rows_dlq=rows_dlq)
        )

    def renew(self) -> None:
        """Show every observer that this driver is alive: the revision grows.

        That of a job that has ended stays, since whoever tells of the end or queues the job again
        goes by it.

        Raises:
            DriverReplacedError: As for ``move``.
        """
        with self._one_change:
            if self.state not in ENDED:
                self._change(lambda now: now)

    def leave(self) -> None:
        """Let somebody else drive on, at once."""
        self._change(lambda now: now.driven_by(None))

    def check(self) -> None:
        """Stop a driver that cannot renew its lease any more.

        Raises:
            DriverReplacedError: Its renewals found that it was replaced.
            TidegateError: Whatever else they met that no later one could mend.
        """
        if self._lost is not None:
            raise self._lost

    @contextmanager
    def renewed(self, *, every_ns: int = RENEW_NS) -> Iterator[None]:
        """Renew the lease from a thread of its own, so that no long step lets it expire.

        Between renewals it looks whether the job is still this driver's.
        """
        over = threading.Event()
        pause_ns = min(every_ns, _NOTICE_NS)

        def renew_on() -> None:
            since_ns = 0
            while not over.wait(ns_to_seconds(pause_ns)):
                since_ns += pause_ns
                try:
                    if since_ns < every_ns:
                        self._look()
                        continue
                    since_ns = 0
                    self.renew()
                except PartUnavailableError as error:  # the next renewal may be in time
                    _log.warning("lease_not_renewed", job_id=self.record.job, reason=str(error))
                except TidegateError as error:  # replaced, or a state that nobody can read
                    self._lost = error
                    return

        thread = threading.Thread(target=renew_on, name=f"lease of job {self.record.job}")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _look(self) -> None:
        with self._one_change, suppress(PartUnavailableError):  # the next renewal tells of it
            if (now := self.record.state()) is not None:
                self._refuse_if_replaced(now)

    def _change(self, change: Callable[[JobState], JobState]) -> None:
        intended: list[State] = []

        def fenced(now: JobState) -> JobState:
            self._refuse_if_replaced(now)
            changed = change(now)
            intended[:] = [changed.state]
            return changed

        with self._one_change:
            stands = self.record.change_state(fenced)
            if stands.epoch != self.epoch or stands.state not in intended:
                raise self._replaced(stands)  # ours landed, its reply was lost, others went on
            self._state = stands

    def _refuse_if_replaced(self, now: JobState) -> None:
        if now.epoch != self.epoch or (now.state in ENDED and self.state not in ENDED):
            raise self._replaced(now)

    def _replaced(self, now: JobState) -> DriverReplacedError:
        if now.state is State.CANCELLED:
            return JobCancelledError(
                f"job {self.record.job} was cancelled, and this driver has stopped. What is "
                f"committed is kept: 'tidegate batch resume {self.record.job}' goes on."
            )
        who = f"{now.driver.host}, process {now.driver.pid}" if now.driver else "somebody"
        return DriverReplacedError(
            f"job {self.record.job} is {now.state} now, moved on by {who}; this driver has "
            "stopped. Nothing is lost or doubled by it: see 'tidegate batch status "
            f"{self.record.job}'."
        )


def take_seat(record: JobRecord, driver: Driver, parts: Parts) -> Seat:
    """Become the driver of a job that nobody drives, or whose driver is dead.

    A driver that is surely gone (its process on this machine has ended) is replaced at once, any
    other when its lease has expired on our own clock.

    Raises:
        JobDrivenError: Its driver is alive.
        JobPublishedError: Nothing is left to do; its driver may have finished just now.
        JobConflictError: The job cannot be resumed.
    """
    watch: LeaseWatch | None = None
    while True:
        seen = record.state() or record.put_state(first_state())
        refuse_to_resume(record, seen)
        now_ns = parts.clock.now_ns()
        first_look = watch is None
        watch = (watch or LeaseWatch(revision=seen.revision, since_ns=now_ns)).observe(
            seen.revision, now_ns
        )
        if _is_free(seen) or watch.is_expired(now_ns):
            taken = _take(record, seen, driver, parts)
            if taken is not None:
                before = seen.failure if seen.state is State.FAILED else None
                return Seat(record, taken, parts, failure_before=before)
        elif not first_look and watch.since_ns == now_ns:
            raise _driven(record, seen)
        parts.pause(_LOOK_NS)


def first_state() -> JobState:
    """Return the state that a job begins in, before anybody drives it."""
    return JobState(state=State.VALIDATING, epoch=0, driver=None, revision=0, write_ids=())


def _is_free(state: JobState) -> bool:
    return state.state in STOPPED or state.driver is None or is_surely_gone(state.driver)


def _take(record: JobRecord, seen: JobState, driver: Driver, parts: Parts) -> JobState | None:
    """Take the seat if nothing has moved since ``seen``; ``None`` if something has."""

    def taken(now: JobState) -> JobState:
        if now.revision != seen.revision:
            raise _MovedMeanwhileError
        resumed = now.moved(Event.RESUMED, parts.now()) if now.state in STOPPED else now
        return resumed.driven_by(driver)

    try:
        stands = record.change_state(taken)
    except _MovedMeanwhileError:
        return None
    is_ours = stands.epoch == seen.epoch + 1 and stands.state not in ENDED
    return stands if is_ours else None  # else the reply was lost, and others went on since


class _MovedMeanwhileError(Exception):
    """Somebody changed the state between a look and the decision made upon it."""


def refuse_to_resume(record: JobRecord, state: JobState) -> None:
    """Refuse a job that no driver could move on.

    Raises:
        JobPublishedError: Nothing is left to do.
        JobConflictError: It was superseded, or has lost committed rows.
    """
    if state.state is State.PUBLISHED:
        raise JobPublishedError(f"job {record.job} is published; nothing is left to do")
    if state.state is State.SUPERSEDED:
        raise JobConflictError(
            f"job {record.job} was superseded: its output was taken over by another job. "
            "Submit a new one."
        )
    if state.failure and state.failure.code == CommittedDataMissingError.code:
        raise JobConflictError(f"job {record.job} cannot be resumed: {state.failure.message}")


def _driven(record: JobRecord, state: JobState) -> JobDrivenError:
    driver = state.driver
    who = f"process {driver.pid} on {driver.host}" if driver else "somebody"
    return JobDrivenError(
        f"job {record.job} is being driven by {who}. Watch it with 'tidegate batch status "
        f"{record.job} --wait', or end that process first."
    )
