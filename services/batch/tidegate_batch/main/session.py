"""What a command does with a job: run it here, hand it to a process of its own, or look at it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import FrameType

import click

from tidegate.errors import SettingError, TidegateError
from tidegate.observability import get_logger
from tidegate.settings import load_settings
from tidegate.units import NS_PER_MS, ns_to_seconds
from tidegate_batch.core.errors import (
    MENDED_BY_NO_RESUME,
    InputInvalidError,
    JobCancelledError,
    JobDrivenError,
    JobNotDrivenError,
    JobPublishedError,
    OutputTakenError,
)
from tidegate_batch.core.names import JobId, parse_job_id
from tidegate_batch.core.states import ENDED, STOPPED
from tidegate_batch.core.wishes import Deadline
from tidegate_batch.main.display import BarDisplay, LineDisplay, build_display
from tidegate_batch.main.notifying import post, webhook_secret
from tidegate_batch.main.wiring import build_crew, build_parts
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.driving import Finished, JobDriver, tidy_if_published
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.notifying import notify_of_end
from tidegate_batch.pipeline.pacing import Pace, PaceWatch
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.queueing import enqueue
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import Submission, absolute, submit
from tidegate_batch.pipeline.watching import JobStatus, look_at, status_of, watch
from tidegate_batch.settings import BatchSettings

_log = get_logger(__name__)
_LOOK_NS = 100 * NS_PER_MS
"""Between two looks for the driver that was started; it takes a second or two to come up."""


_TELL_ENOUGH = MENDED_BY_NO_RESUME | {JobCancelledError.code}
"""Codes of errors that say themselves what became of the job, or whom no resume would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command says of a job."""

    status: JobStatus
    finished: Finished | None = None
    """Only if this very command has driven the job to its end."""
    log: Path | None = None
    """Where the process that drives the job in the background writes."""
    pace: Pace | None = None
    """How fast a job that is being scored goes."""
    is_queued: bool = False
    """A service will drive it."""

    @property
    def is_left_alone(self) -> bool:
        """The job is not done, and nothing will happen by itself."""
        return self.log is None and not self.is_queued and self.status.needs_resume

    def as_json(self) -> dict[str, object]:
        """Return what ``--json`` prints."""
        status = {name: getattr(self.status, name) for name in self.status.__struct_fields__}
        answer: dict[str, object] = {**status, "pace": self.pace}
        if self.log:
            answer["log"] = str(self.log)
        if self.finished:
            seconds = ns_to_seconds(self.finished.took_ns)
            answer["parts"] = len(self.finished.manifest.parts)
            answer["rows_scored"] = self.finished.rows_scored
            answer["seconds"] = round(seconds, 3)
            answer["rows_per_second"] = round(self.finished.rows_scored / seconds, 1)
        return answer


class Session:
    """One command's settings and parts."""

    def __init__(self, flags: Mapping[str, object], *, config: Path | None) -> None:
        settings = load_settings(config=config, flags=flags)
        self.batch = settings.section(BatchSettings)
        self.config = config.absolute() if config else None
        self.cache_dir = settings.cache_dir.absolute()
        self.store_url = absolute(settings.store).rstrip("/")
        self.parts: Parts = build_parts(fault_share=self.batch.rehearse_faults)

    def record(self, job: str) -> JobRecord:
        """Return the record of a job that a person named."""
        return JobRecord(self.parts.stores(self.store_url), JobId(parse_job_id(job)))

    def run(self, record: JobRecord) -> Answer:
        """Drive a job to its end in this process.

        Ctrl-C and SIGTERM stop it; what is committed stays, and it can be resumed.
        """
        try:
            return self._unless_published(record, self._run)
        finally:  # however it ended
            self.notify(record)

    def cancel(self, record: JobRecord, *, by: str) -> Answer:
        """Stop a job, and tell of it if it has no driver to do so.

        Raises:
            JobConflictError: It cannot be stopped any more, or has ended.
        """
        before = record.state()
        cancel(record, self.parts, by=by)
        if before is None or before.driver is None:
            self.notify(record)
        return self.look(record)

    def notify(self, record: JobRecord) -> None:
        """Tell whom the job names that it has ended, if it has and nobody has told it yet.

        What keeps it from that is logged, since it is no failure of the job.
        """
        try:
            secret = webhook_secret(self.batch.webhook_secret_file)
            notify_of_end(record, self.parts, post=post, secret=secret)
        except TidegateError as error:
            _log.error("not_notified", job_id=record.job, reason=str(error))

    def _run(self, record: JobRecord) -> Answer:
        crew = build_crew(self.batch, cache_dir=self.cache_dir)
        with self._display(record) as display, _polite_ends_interrupt():
            display.stage(f"job {record.job}")
            seat = take_seat(record, this_process(), self.parts)
            finished = JobDriver(seat, parts=self.parts, display=display).run(crew)
        return Answer(status=status_of(record), finished=finished)

    def run_alone(self, record: JobRecord) -> Answer:
        """Check everything here, then let a process of its own do the work.

        Returns when that process has taken over.

        Raises:
            JobNotDrivenError: It ended before that; the message names its log.
            SettingError: Its log cannot be written.
        """
        return self._unless_published(record, self._run_alone)

    def _run_alone(self, record: JobRecord) -> Answer:
        with self._display(record) as display, _polite_ends_interrupt():
            seat = take_seat(record, this_process(), self.parts)
            JobDriver(seat, parts=self.parts, display=display).prepare()
            seat.leave()
        log = self.log_of(record.job)
        pid = self.start_driver(record.job, log=log)
        self._wait_for_driver(record, pid, log)
        return Answer(status=status_of(record), log=log)

    def start_driver(self, job: JobId, *, log: Path) -> int:
        """Start a process of its own that drives a job to its end, and return its pid.

        Raises:
            SettingError: Its log cannot be written.
        """
        options = ["--store", self.store_url, "--wait", "--engine", self.batch.engine]
        options += ["--config", str(self.config)] if self.config else []
        options += ["--workers", str(self.batch.workers)] if self.batch.workers else []
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            return _start_alone(["batch", "resume", job, *options], log=log)
        except OSError as error:
            raise SettingError(
                f"no driver could be started with the log {log}: {error.strerror}. Let cache_dir "
                f"be a folder that can be written, then 'tidegate batch resume {job}'."
            ) from error

    def log_of(self, job: JobId) -> Path:
        """Return where a driver that was started here writes."""
        return self.cache_dir / "jobs" / f"{job}.log"

    def _wait_for_driver(self, record: JobRecord, pid: int, log: Path) -> None:
        seen = record.state()
        while seen is not None and seen.driver is None and seen.state not in ENDED:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                raise JobNotDrivenError(
                    f"the process that was to drive job {record.job} has ended; see {log}. Then "
                    f"'tidegate batch resume {record.job}'."
                )
            self.parts.pause(_LOOK_NS)
            seen = record.state()

    def _unless_published(self, record: JobRecord, go_on: Callable[[JobRecord], Answer]) -> Answer:
        """Go on with a job, unless it is published, or another driver publishes it just now."""
        if not tidy_if_published(record, self.parts):
            with suppress(JobPublishedError):
                return go_on(record)
        return self.look(record)

    def look(self, record: JobRecord) -> Answer:
        """Read how far a job is."""
        pace = PaceWatch(record, self.parts, finish_by=record.spec().wishes.finish_by)
        status, known = look_at(record, pace)
        return Answer(status=status, pace=known)

    def watch(self, record: JobRecord) -> Answer:
        """Show a job's progress until it ends, without touching it."""
        with self._display(record) as display:
            return Answer(status=watch(record, parts=self.parts, display=display))

    @contextmanager
    def _display(self, record: JobRecord) -> Iterator[LineDisplay | BarDisplay]:
        finish_by = record.spec().wishes.finish_by
        deadline = Deadline(datetime.fromisoformat(finish_by)) if finish_by else None
        display = build_display(self.parts.clock, wall=self.parts.wall, deadline=deadline)
        try:
            yield display
        finally:
            display.close()


def run_submitted(session: Session, submission: Submission, *, wait: bool) -> Answer:
    """Make a job, or find it by its client token, and get it going if there is a way on."""
    record = submit(submission, store_url=session.store_url, parts=session.parts)
    if not is_taken_up(status_of(record)):
        return session.look(record)
    try:
        if wait:
            return run_or_explain(session, record)
        return session.run_alone(record)
    except JobDrivenError:  # found by its token, and somebody is at it
        return session.watch(record) if wait else session.look(record)


def is_taken_up(status: JobStatus) -> bool:
    """Say whether asking for a job again is asking to go on with it.

    It is not what a person has stopped, nor what would only fail again.
    """
    code = status.failure.code if status.failure else None
    is_open = status.state not in ENDED or status.state in STOPPED
    return is_open and code != JobCancelledError.code and code not in MENDED_BY_NO_RESUME


def queue_submitted(session: Session, submission: Submission) -> Answer:
    """Make a job, or find it by its client token, and leave it to a service."""
    record = submit(submission, store_url=session.store_url, parts=session.parts)
    if not is_taken_up(status_of(record)):  # found by its token: what to do about it is said
        return session.look(record)
    enqueue(record, session.parts)
    return replace(session.look(record), is_queued=True)


def run_or_explain(session: Session, record: JobRecord) -> Answer:
    """Drive a job here; if that ends early, say on stderr what became of the job."""
    try:
        return session.run(record)
    except (TidegateError, KeyboardInterrupt) as error:
        job = record.job
        if isinstance(error, InputInvalidError | OutputTakenError):
            click.echo(
                f"job {job} has not begun. Once what follows is put right, go on with 'tidegate "
                f"batch resume {job} --wait'.",
                err=True,
            )
        elif isinstance(error, KeyboardInterrupt) or error.code not in _TELL_ENOUGH:
            click.echo(
                f"job {job} stopped; what is committed is kept. Look at it with 'tidegate batch "
                f"status {job}', go on with 'tidegate batch resume {job} --wait'.",
                err=True,
            )
        raise


def _start_alone(arguments: list[str], *, log: Path) -> int:
    """Start this very command line tool in a session of its own, which no terminal can end.

    Python would look for modules in the current folder first, which is full of whatever the
    person works on; ``-P`` keeps it from that.
    """
    program = "import os; os.setsid(); from tidegate.cli import main; main()"
    writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-c", program, *arguments],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), writing, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )


@contextmanager
def _polite_ends_interrupt() -> Iterator[None]:
    """Treat a polite end (of a container, a batch system, a terminal) like Ctrl-C.

    What was told to ignore one, such as SIGHUP by ``nohup``, goes on ignoring it.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {kind: signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGHUP)}
    for kind, how in before.items():
        if how is not signal.SIG_IGN:
            signal.signal(kind, interrupt)
    try:
        yield
    finally:
        for kind, how in before.items():
            signal.signal(kind, how)
