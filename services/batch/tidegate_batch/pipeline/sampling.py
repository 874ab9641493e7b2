"""Measuring a job before it is submitted: a small job over a sample of it, in a scratch folder.

The sample runs through the very same planning, workers and writing as the job would, beside each
other on all cores; only its output lies on this machine's disk, and nothing of it is kept.
"""

import resource
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec.structs import replace

from tidegate.artifacts.layout import version_prefix
from tidegate.clock import Clock
from tidegate.errors import PartUnavailableError
from tidegate.ids import ModelName
from tidegate.objects.port import ObjectStore
from tidegate.units import ms_to_ns, ns_to_seconds, seconds_to_ns
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.errors import InputInvalidError, JobCancelledError, Problem
from tidegate_batch.core.estimate import BadRows, Measured, Pace, sample_chunks
from tidegate_batch.core.names import JobId
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.planning import PlannedChunk
from tidegate_batch.core.records import Commit, JobSpec, Plan
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.driving import Crew, JobDriver
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.owning import OutputClaim
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.planning import make_plan
from tidegate_batch.pipeline.reading_dead_letters import summarize
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import Submission, at_its_output, spec_of
from tidegate_batch.ports import Display

SAMPLED_CHUNKS: Final = 2
_ALL_MAY_BE_BAD: Final = "100%"
"""Bad rows of the sample are counted and told, and end nothing."""
_SHORTEST_S: Final = 1e-6
"""Less is no measurement; a clock that only tests move may say 0."""
_BYTES_PER_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was planned, and what the sample of it showed."""

    spec: JobSpec
    plan: Plan
    pace: Pace
    measured: Measured


def measure(
    submission: Submission,
    crew: Crew,
    *,
    store_url: str,
    parts: Parts,
    display: Display,
    limit_s: float,
) -> Sample:
    """Check the inputs as a submission would, and score a sample of them.

    Args:
        submission: What would be submitted; nothing is written to its store or output.
        crew: Who scores; it cannot be used again.
        store_url: Where the model lies.
        parts: Stores and clocks.
        display: Shows the sample's progress.
        limit_s: How long to score at most, once a worker is ready.

    Raises:
        InputInvalidError: With every problem of the inputs, or since they hold no row.
        OutputTakenError: The output belongs to another job, or holds data.
        SettingError: The output's template means nothing.
        PartUnavailableError: Not one chunk was scored; the message says what to do.
    """
    store = parts.stores(store_url)
    with TemporaryDirectory(prefix="tidegate-estimate-") as folder:
        asked = spec_of(submission, store=store, parts=parts)
        asked = at_its_output(asked, like=asked)
        _claim(asked, store, parts).check()
        plan = make_plan(asked, parts=parts, store_url=store_url)
        if not plan.rows:
            raise InputInvalidError.of_problems([_no_rows(asked)])
        scratch = _Scratch(asked, plan, folder=folder, parts=parts)
        scratch.copy_model(store)
        sample = sample_chunks(
            plan.chunks,
            workers=crew.workers,
            rows=SAMPLED_CHUNKS * asked.request.chunk_rows,
        )
        began_s = parts.wall.utc_now().timestamp()
        commits = scratch.run(sample, crew, _Limited(display, parts.clock, limit_s))
        bad = scratch.bad_rows(commits)
    return Sample(
        spec=asked,
        plan=plan,
        pace=Pace.of([(commit.rows_in, _took_s(commit)) for commit in _warm(commits)]),
        measured=_measured(commits, bad, crew=crew, began_s=began_s),
    )


def _claim(spec: JobSpec, store: ObjectStore, parts: Parts) -> OutputClaim:
    record = JobRecord(store, JobId(spec.job))
    return OutputClaim(spec, record=record, stores=parts.stores, at=parts.now())


def _no_rows(spec: JobSpec) -> Problem:
    where = ", ".join(spec.request.inputs)
    return Problem(where=where, column=None, expected="at least one row", found="none")


class _Scratch:
    """A folder that is store and output of small jobs, and goes away."""

    def __init__(self, spec: JobSpec, plan: Plan, *, folder: str, parts: Parts) -> None:
        self._spec = spec
        self._plan = plan
        self._folder = Path(folder)
        self._parts = parts
        self._store = parts.stores(str(self._folder / "store"))

    def copy_model(self, source: ObjectStore) -> None:
        """Bring the version here, where the workers look for it."""
        model = self._spec.model
        for key in list(source.keys(version_prefix(ModelName(model.name), model.version))):
            if (path := source.local_path(key)) is not None:
                self._store.put_if_absent(key, path)
            elif (stored := source.get(key)) is not None:
                self._store.put_if_absent(key, stored.body)

    def run(self, chunks: Sequence[PlannedChunk], crew: Crew, display: "_Limited") -> list[Commit]:
        """Score these chunks of the plan, or as many as the display lets pass."""
        spec, plan = self._small(chunks)
        record = JobRecord(self._store, JobId(spec.job))
        record.put_spec(spec)
        record.put_plan(plan)
        _claim(spec, self._store, self._parts).claim()
        display.stop = lambda: cancel(record, self._parts, by="the estimate: its time is over")
        seat = take_seat(record, this_process(), self._parts)
        with suppress(JobCancelledError):
            JobDriver(seat, parts=self._parts, display=display).run(crew)
        return [commit for commit in record.commits(plan) if commit is not None]

    def bad_rows(self, commits: Sequence[Commit]) -> tuple[BadRows, ...]:
        """Say why rows could not be scored."""
        files = [commit.dead_letters for commit in commits if commit.dead_letters]
        return tuple(
            BadRows(
                code=reason.code,
                rows=reason.rows,
                first=f"{reason.first.place}: {reason.first.message}",
            )
            for reason in summarize(self._store, files, most=0).reasons
        )

    def _small(self, chunks: Sequence[PlannedChunk]) -> tuple[JobSpec, Plan]:
        job = self._parts.new_id()[:16]
        output = str(self._folder / job)
        request = replace(self._spec.request, output=output, max_bad_rows=_ALL_MAY_BE_BAD)
        return (
            replace(self._spec, job=job, request=request),
            replace(self._plan, job=job, chunks=tuple(chunks), rows=sum(c.rows for c in chunks)),
        )


class _Limited:
    """A display that also looks at the clock: it ends the sample when its time is over."""

    def __init__(self, shown: Display, clock: Clock, limit_s: float) -> None:
        self.stop: Callable[[], object] = _nothing
        self._shown = shown
        self._clock = clock
        self._limit_ns = seconds_to_ns(limit_s)
        self._began_ns: int | None = None

    def stage(self, text: str) -> None:
        self._shown.stage(f"sample: {text}")

    def progress(
        self,
        statistics: QueueStatistics,
        *,
        workers: int | None,
        outlook: Outlook | None = None,
        rows_dlq: int = 0,
    ) -> None:
        self._shown.progress(statistics, workers=workers, outlook=outlook, rows_dlq=rows_dlq)
        now_ns = self._clock.now_ns()
        if workers and self._began_ns is None:
            self._began_ns = now_ns
        is_over = self._began_ns is not None and now_ns >= self._began_ns + self._limit_ns
        if is_over and (workers or 1) <= statistics.committed < statistics.chunks:
            self.stop()


def _nothing() -> None:
    """Stop nothing: no job runs yet."""


def _measured(
    commits: Sequence[Commit], bad: tuple[BadRows, ...], *, crew: Crew, began_s: float
) -> Measured:
    warm = _warm(commits)
    starts = [_at_s(commit) - _took_s(commit) for commit in commits]
    return Measured(
        rows=sum(commit.rows_in for commit in warm),
        bad_rows=sum(commit.rows_dlq for commit in warm),
        bad=bad,
        chunks=len(warm),
        seconds=sum(_took_s(commit) for commit in warm),
        start_s=max(0.0, min(starts) - began_s),
        workers=len({commit.worker for commit in commits}),
        threads=crew.threads,
        output_bytes=sum(commit.data.bytes for commit in warm),
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _BYTES_PER_RSS_UNIT,
    )


def _warm(commits: Sequence[Commit]) -> Sequence[Commit]:
    """Return the commits that are measured: without the first of each worker, if others are left.

    Raises:
        PartUnavailableError: There is none.
    """
    warm = _without_the_first_of_each_worker(commits) or commits
    if not warm:
        raise PartUnavailableError(
            "not one chunk of the sample was scored, so nothing can be foretold. Try again, or "
            "submit the job and watch it."
        )
    return warm


def _without_the_first_of_each_worker(commits: Sequence[Commit]) -> list[Commit]:
    seen: set[str] = set()
    warm = []
    for commit in sorted(commits, key=_at_s):
        if commit.worker in seen:
            warm.append(commit)
        seen.add(commit.worker)
    return warm


def _at_s(commit: Commit) -> float:
    return datetime.fromisoformat(commit.committed_at).timestamp()


def _took_s(commit: Commit) -> float:
    return max(ns_to_seconds(ms_to_ns(commit.timings.total_ms)), _SHORTEST_S)
