"""Moving a job on, from wherever it is to published; or to failed, with the reason recorded."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tidegate.errors import TidegateError
from tidegate_batch.core.chunks import ChunkQueue
from tidegate_batch.core.errors import (
    CommittedDataMissingError,
    DriverReplacedError,
    JobConflictError,
)
from tidegate_batch.core.records import JobFailure, JobManifest, JobSpec, Plan
from tidegate_batch.core.states import Event, State
from tidegate_batch.pipeline.counting import bad_rows_so_far, refuse_too_many_bad_rows
from tidegate_batch.pipeline.looping import ChunkLoop
from tidegate_batch.pipeline.owning import OutputClaim
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.planning import make_plan, refuse_changes
from tidegate_batch.pipeline.publishing import Publication
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import Seat
from tidegate_batch.pipeline.stopping import stopped_by
from tidegate_batch.ports import Display, Engine, NoticeSetup, WorkerSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who does the work, chosen anew by each driver: it changes nothing about the output."""

    engine: Engine
    workers: int
    threads: int
    """Cores that the model may use in each worker."""
    cache_dir: str
    no_commit_limit_ns: int
    notice: NoticeSetup = field(default_factory=NoticeSetup)
    """Where workers hear that their machine will be taken away."""
    fault_share: float = 0.0
    """Of the calls to a store, those that fail on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job that this driver has published."""

    manifest: JobManifest
    rows_scored: int
    """By this driver's workers; the others were committed before."""
    took_ns: int
    """From taking the job up to its end, the start of the workers included."""


class JobDriver:
    """Does what is left to do of one job, whichever driver did the rest."""

    def __init__(self, seat: Seat, *, parts: Parts, display: Display) -> None:
        self._seat = seat
        self._record = seat.record
        self._parts = parts
        self._display = display
        self._spec: JobSpec = self._record.spec()

    def prepare(self) -> None:
        """Claim the output, check the inputs and fix the plan, as far as that is not done.

        Raises:
            OutputTakenError: The output cannot be this job's.
            InputInvalidError: With every problem of the inputs.
            JobConflictError: What was planned is not what is there now.
        """
        if self._seat.state is State.PUBLISHING:  # nothing of this matters any more
            return
        with self._seat.renewed(), self._recording_failure():
            self._prepare()

    def run(self, crew: Crew) -> Finished:
        """Prepare, score what is not committed, and publish.

        Raises:
            JobError: The job failed; its state says so, and it can be resumed.
            DriverReplacedError: Another driver has it now.
            PartUnavailableError: A store, or the engine.
        """
        began_ns, rows_scored = self._parts.clock.now_ns(), 0
        with self._seat.renewed():
            if self._seat.state is not State.PUBLISHING:
                with self._recording_failure():
                    plan = self._prepare()
                    if self._seat.state is State.PLANNED:
                        self._seat.move(Event.STARTED)
                    rows_scored = self._score(plan, crew)
                    refuse_too_many_bad_rows(self._record, plan)
                self._seat.move(Event.ALL_COMMITTED)
            manifest = self._publish()
        took_ns = self._parts.clock.now_ns() - began_ns
        return Finished(manifest=manifest, rows_scored=rows_scored, took_ns=took_ns)

    def _prepare(self) -> Plan:
        url, parts = self._record.store.url, stopped_by(self._seat.check, self._parts)
        claim = OutputClaim(
            self._spec, record=self._record, stores=self._parts.stores, at=self._parts.now()
        )
        plan = self._record.plan()
        if plan is None:
            claim.claim()
            self._display.stage("checking the inputs")
            plan = self._record.put_plan(make_plan(self._spec, parts=parts, store_url=url))
        else:
            claim.confirm()
            refuse_changes(self._spec, plan, parts=parts, store_url=url)
        self._seat.check()
        if self._seat.state is State.VALIDATING:
            self._seat.move(Event.PLANNED)
        return plan

    def _score(self, plan: Plan, crew: Crew) -> int:
        """Score what is not committed, and return how many rows that were."""
        committed = self._record.committed_chunks()
        queue = ChunkQueue(
            plan.chunks,
            committed=committed,
            no_commit_limit_ns=crew.no_commit_limit_ns,
            now_ns=self._parts.clock.now_ns(),
        )
        bad_rows = bad_rows_so_far(self._record, plan, committed)
        bad_rows.check()
        rows_before = queue.statistics().rows_committed
        if queue.is_finished:
            return 0
        loop = ChunkLoop(
            queue,
            crew.engine,
            seat=self._seat,
            parts=self._parts,
            display=self._display,
            bad_rows=bad_rows,
        )
        self._display.stage(f"starting {crew.engine.name} workers")
        try:
            crew.engine.start(self._setup(crew))
            loop.run(workers=crew.workers)
        finally:
            crew.engine.close()
        return plan.rows - rows_before

    def _setup(self, crew: Crew) -> WorkerSetup:
        return WorkerSetup(
            store=self._record.store.url,
            job=self._record.job,
            epoch=self._seat.epoch,
            threads=crew.threads,
            cache_dir=crew.cache_dir,
            notice=crew.notice,
            fault_share=crew.fault_share,
        )

    def _publish(self) -> JobManifest:
        self._display.stage("publishing")
        publication = publication_of(self._record, self._parts)
        try:
            manifest = publication.publish()
        except CommittedDataMissingError as error:
            self._seat.move(Event.DATA_MISSING, failure=_failure_of(error))
            raise
        self._seat.move(Event.MANIFEST_WRITTEN, rows_dlq=manifest.rows_dlq)
        publication.clean_up()
        return manifest

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Write down why the job stops, so that whoever asks for its state is told."""
        try:
            yield
        except DriverReplacedError:  # not this driver's job any more, nor its failure
            raise
        except JobConflictError as error:  # why the job failed says more than why it cannot go on
            self._record_end(Event.FAILED, self._seat.failure_before or _failure_of(error))
            raise
        except TidegateError as error:
            self._seat.check()  # whoever was stopped was not stopped by what it met then
            self._record_end(Event.FAILED, _failure_of(error))
            raise
        except KeyboardInterrupt:
            reason = JobFailure(code="interrupted", message="its driver was interrupted")
            self._record_end(Event.CANCELLED, reason)
            raise
        except Exception as error:  # a bug: the next driver would meet it again, and for ever
            self._record_end(Event.FAILED, _failure_of_bug(error))
            raise

    def _record_end(self, event: Event, failure: JobFailure) -> None:
        with suppress(TidegateError):  # the error on its way up says more than this one would
            self._seat.move(event, failure=failure)


def _failure_of(error: TidegateError) -> JobFailure:
    return JobFailure(code=error.code, message=str(error))


def _failure_of_bug(error: Exception) -> JobFailure:
    return JobFailure(
        code=TidegateError.code,
        message=f"its driver failed for a reason that is no fault of the job: "
        f"{type(error).__name__}: {error}. A resume goes on from what is committed.",
    )


def publication_of(record: JobRecord, parts: Parts) -> Publication:
    """Return what publishes a job that has a plan."""
    spec, plan = record.spec(), record.plan()
    assert plan is not None, "a job is planned long before it is published"
    output = parts.stores(spec.request.output)
    return Publication(spec, plan, record=record, output=output, at=parts.now())


def tidy_if_published(record: JobRecord, parts: Parts) -> bool:
    """Say whether a job is published, and do what its driver may have died too early for."""
    state = record.state()
    if state is None or state.state is not State.PUBLISHED:
        return False
    publication_of(record, parts).clean_up()
    return True
