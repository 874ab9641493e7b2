"""Reading a published output again, and comparing it with what the job says it wrote."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import JobError
from tidegate.objects.port import ObjectStore
from tidegate_batch.core.errors import JobConflictError, JobRecordError
from tidegate_batch.core.names import (
    MANIFEST_KEY,
    SUCCESS_KEY,
    JobId,
    belongs_to,
    is_read_by_a_glob,
)
from tidegate_batch.core.planning import PlannedChunk
from tidegate_batch.core.records import (
    Commit,
    JobManifest,
    JobSpec,
    JobState,
    Part,
    Plan,
    PlannedInput,
)
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.reading_dead_letters import DeadRows, dead_rows, read_dead_letters
from tidegate_batch.pipeline.record import JobRecord

_READ_ROWS = 65_536
_TEXTS = ("_job_id", "_chunk_id", "_model_digest", "_source")
_ROW_INDEX = pa.field("_row_index", pa.int64())
_CHECKED = pa.schema([pa.field(name, pa.string()) for name in _TEXTS]).append(_ROW_INDEX)
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What reading everything again has shown."""

    job: str
    rows: int
    rows_dlq: int
    parts: int
    problems: tuple[str, ...]
    """One sentence each; none if the output is sound."""

    @property
    def is_sound(self) -> bool:
        """Each planned row stands once in the output or the dead letters, as it was written."""
        return not self.problems


def verify(record: JobRecord, *, parts: Parts) -> Verdict:
    """Read every part and all dead letters, and compare them with plan, commits and manifest.

    Raises:
        JobNotFoundError: The store holds no such job.
        JobConflictError: The job is not published, so there is nothing to verify yet.
    """
    spec, plan, state = record.spec(), record.plan(), record.state()
    output = parts.stores(spec.request.output)
    manifest = read_manifest(output)
    if plan is None or manifest is None or manifest.job != spec.job:
        if state is not None and state.state is State.PUBLISHED:
            return _without_manifest(spec, state)
        raise JobConflictError(
            f"job {spec.job} has published nothing to {spec.request.output} yet. See "
            f"'tidegate batch status {spec.job}'."
        )
    check = _Check(plan, manifest, record=record, output=output, parts=parts)
    try:
        problems = tuple(check.problems())
    finally:
        parts.source.close()
    return Verdict(
        job=spec.job,
        rows=manifest.rows_out,
        rows_dlq=manifest.rows_dlq,
        parts=len(manifest.parts),
        problems=problems,
    )


def _without_manifest(spec: JobSpec, state: JobState) -> Verdict:
    """Say of a published job that its output has been removed since, or was given to another."""
    problem = f"{MANIFEST_KEY} in {spec.request.output} is gone, or another job's"
    rows_dlq = state.rows_dlq or 0
    return Verdict(job=spec.job, rows=0, rows_dlq=rows_dlq, parts=0, problems=(problem,))


class _Check:
    """Every way in which an output can be wrong."""

    def __init__(
        self,
        plan: Plan,
        manifest: JobManifest,
        *,
        record: JobRecord,
        output: ObjectStore,
        parts: Parts,
    ) -> None:
        self._plan = plan
        self._manifest = manifest
        self._record = record
        self._output = output
        self._parts = parts
        self._dead_letter_parts = {part.chunk: part for part in manifest.dead_letters}

    def problems(self) -> Iterator[str]:
        yield from self._of_totals()
        yield from self._of_files()
        by_chunk = {part.chunk: part for part in self._manifest.parts}
        commits = self._record.commits(self._plan)
        for chunk, commit in zip(self._plan.chunks, commits, strict=True):
            part = by_chunk.get(chunk.chunk)
            if part is None or commit is None:
                missing = "commit" if part else "part in the manifest"
                yield f"chunk {chunk.chunk} has no {missing}"
                continue
            yield from self._of_counts(chunk, commit, part)
            try:
                dead = self._dead_letters(commit)
            except JobError as error:
                yield str(error)
                continue
            yield from self._of_part(chunk, part, dead)

    def _of_totals(self) -> Iterator[str]:
        rows_in, manifest = self._plan.rows, self._manifest
        if not rows_in == manifest.rows_in == manifest.rows_out + manifest.rows_dlq:
            yield (
                f"the job planned {rows_in} rows, its manifest counts {manifest.rows_in} in, "
                f"{manifest.rows_out} out and {manifest.rows_dlq} dead letters"
            )
        if sum(part.rows for part in manifest.parts) != manifest.rows_out:
            yield f"the parts in the manifest do not have {manifest.rows_out} rows together"
        dead = sum(part.rows for part in manifest.dead_letters)
        if not manifest.rows_dlq == dead == sum(manifest.dead_letter_reasons.values()):
            yield f"the dead letters in the manifest are not {manifest.rows_dlq} rows together"

    def _of_files(self) -> Iterator[str]:
        listed = {part.key for part in self._manifest.parts}
        for key in self._output.keys(""):
            if is_read_by_a_glob(key) and key not in listed:
                owner = "" if belongs_to(key, JobId(self._plan.job)) else " (not this job's)"
                yield f"{key}{owner} is not in the manifest: a reader of all files takes its rows"
        if self._output.head(SUCCESS_KEY) is None:
            yield f"{SUCCESS_KEY} is missing: whoever waits for it never reads this output"

    def _of_counts(self, chunk: PlannedChunk, commit: Commit, part: Part) -> Iterator[str]:
        if chunk.rows != commit.rows_in or part.rows != commit.rows_out:
            yield (
                f"chunk {chunk.chunk}: {chunk.rows} rows planned, {commit.rows_in} read, "
                f"{commit.rows_out} committed, {commit.rows_dlq} dead letters, {part.rows} in the "
                "manifest"
            )
        if part.sha256 != commit.data.sha256:
            yield f"{part.key}: the manifest's digest is not the committed one"

    def _dead_letters(self, commit: Commit) -> DeadRows:
        """Read where a chunk's dead letters came from; what is not as committed is an error."""
        file, named = commit.dead_letters, self._dead_letter_parts.get(commit.chunk)
        if (file and file.sha256) != (named and named.sha256):
            raise JobRecordError(
                f"chunk {commit.chunk}: the manifest names other dead letters than the commit"
            )
        return dead_rows(read_dead_letters(self._record.store, file)) if file else {}

    def _of_part(self, chunk: PlannedChunk, part: Part, dead: DeadRows) -> Iterator[str]:
        head = self._output.head(part.key)
        if head is None:
            yield f"{part.key} is missing"
            return
        if head.size_bytes != part.bytes or self._sha256(part.key, head.etag) != part.sha256:
            yield f"{part.key} is not the file that was published: its digest differs"
            return
        planned = PlannedInput(
            source=part.key,
            store=self._output.url,
            key=part.key,
            etag=head.etag,
            bytes=head.size_bytes,
            rows=part.rows,
            format=self._manifest.format,
        )
        try:
            yield from self._of_rows(chunk, planned, dead)
        except JobError as error:
            yield str(error)

    def _sha256(self, key: str, etag: str) -> str:
        digest = hashlib.sha256()
        with self._output.open(key, etag=etag) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def _of_rows(self, chunk: PlannedChunk, planned: PlannedInput, dead: DeadRows) -> Iterator[str]:
        """Compare where each row says it came from with the plan; order counts."""
        table = self._read(planned)
        facts = {
            "_job_id": self._plan.job,
            "_chunk_id": chunk.chunk,
            "_model_digest": self._manifest.model.digest,
        }
        for name, expected in facts.items():
            if (found := pc.unique(table[name]).to_pylist()) not in ([expected], []):
                yield f"{planned.source}: {name} is {found[:3]}, not {expected!r}"
        first = 0
        for piece in chunk.pieces:
            source = self._plan.inputs[piece.input].source
            wanted = np.arange(piece.first_row, piece.first_row + piece.rows)
            answered = wanted[~np.isin(wanted, dead.get(source, ()))]
            rows = table.slice(first, len(answered))
            same_source = pc.unique(rows["_source"]).to_pylist() in ([source], [])
            if not same_source or not np.array_equal(rows["_row_index"].to_numpy(), answered):
                expected = f"rows {wanted[0]} to {wanted[-1]} of {source}"
                but = ", but for the dead letters" if len(answered) < len(wanted) else ""
                yield f"{planned.source} does not hold {expected}{but}, in order"
            first += len(answered)
        if first != planned.rows:
            yield f"{planned.source} holds {planned.rows} rows, and {first} have an answer"

    def _read(self, planned: PlannedInput) -> pa.Table:
        read = self._parts.source.read(
            planned,
            first_row=0,
            rows=planned.rows,
            columns=_CHECKED,
            batch_rows=_READ_ROWS,
        )
        batches = [rows.batch for rows in read]
        return pa.Table.from_batches(batches) if batches else _CHECKED.empty_table()
