"""What a worker does with a chunk: read, score, write, commit."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import PartUnavailableError, TidegateError
from tidegate.inference.model import Model
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError
from tidegate.objects.port import ObjectStore, Written
from tidegate_batch.core.errors import RowsMismatchError
from tidegate_batch.core.formats import TEXT_FORMATS
from tidegate_batch.core.names import AttemptId, JobId, attempt_key, dead_letter_key
from tidegate_batch.core.planning import Piece, PlannedChunk
from tidegate_batch.core.records import Commit, CommittedRows, DeadLetters, Plan
from tidegate_batch.pipeline.answering import Answerer, batch_rows_for
from tidegate_batch.pipeline.dead_letters import DeadLetterBox
from tidegate_batch.pipeline.expecting import planned_kept, read_schema
from tidegate_batch.pipeline.isolation import IsolatedAnswerer, ProcessApart
from tidegate_batch.pipeline.output import RowAssembler, with_facts
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.planning import planned_schema
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.stopwatch import Stopwatch
from tidegate_batch.ports import (
    Assignment,
    ChunkResult,
    Committed,
    EncodedRows,
    Failed,
    ReadRows,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One try at one chunk."""

    id: AttemptId
    chunk: PlannedChunk
    watch: Stopwatch
    answerer: Answerer
    assembler: RowAssembler
    dead_letters: DeadLetterBox


class Scorer:
    """Scores chunks of one job with one loaded model; for one thread."""

    def __init__(
        self, *, record: JobRecord, plan: Plan, model: Model, parts: Parts, epoch: int, worker: str
    ) -> None:
        self._record = record
        self._spec = record.spec()
        self._output: ObjectStore = parts.stores(self._spec.request.output)
        self._plan = plan
        self._chunks = {chunk.chunk: chunk for chunk in plan.chunks}
        self._model = model
        self._parts = parts
        self._epoch = epoch
        self._worker = worker
        self._schema = planned_schema(plan)
        self._columns = read_schema(model.manifest, self._schema)
        self._batch_rows = batch_rows_for(model)
        is_text = self._spec.request.output_format in TEXT_FORMATS
        self._texts = planned_kept(model.manifest, self._schema) if is_text else ()
        self.apart: ProcessApart | None = None
        """Scores rows that may kill whoever scores them; without it they are scored here."""

    def score(self, assignment: Assignment) -> ChunkResult:
        """Score and commit a chunk; whatever goes wrong becomes a result that names the rows.

        Raises:
            DeviceLostError: This process can score nothing any more and must be replaced.
        """
        chunk = self._chunks[assignment.chunk]
        try:
            commit = self._score(self._begun(chunk, assignment))
        except DeviceLostError:
            raise
        except (TidegateError, MemoryError) as error:
            return self._failed(chunk, error)
        except Exception as error:  # a bug must end the job, not the worker, for ever replaced
            message = f"{self._describe(chunk)}: {type(error).__name__}: {error}"
            return Failed(
                chunk=chunk.chunk, code=TidegateError.code, message=message, is_retriable=False
            )
        reasons = commit.dead_letters.reasons if commit.dead_letters else {}
        return Committed(chunk=chunk.chunk, reasons=reasons)

    def close(self) -> None:
        """Close the input that the last chunk was read from."""
        self._parts.source.close()
        if self.apart is not None:
            self.apart.close()

    def _failed(self, chunk: PlannedChunk, error: TidegateError | MemoryError) -> Failed:
        if isinstance(error, MemoryError):  # not of a model's call, which would be halved
            error = OutOfMemoryError(f"{self._describe(chunk)}: no memory is left for the chunk")
        is_retriable = isinstance(error, PartUnavailableError | OutOfMemoryError)
        return Failed(
            chunk=chunk.chunk, code=error.code, message=str(error), is_retriable=is_retriable
        )

    def _begun(self, chunk: PlannedChunk, assignment: Assignment) -> _Attempt:
        attempt = AttemptId(assignment.attempt)
        job, model = self._spec.job, self._spec.model
        return _Attempt(
            id=attempt,
            chunk=chunk,
            watch=Stopwatch(self._parts.clock),
            answerer=self._answerer(is_isolated=assignment.is_isolated),
            assembler=RowAssembler(self._schema, model=model, job=job, chunk=chunk.chunk),
            dead_letters=DeadLetterBox(model=model, job=job, chunk=chunk.chunk, attempt=attempt),
        )

    def _answerer(self, *, is_isolated: bool) -> Answerer:
        if is_isolated and self.apart is not None:
            return IsolatedAnswerer(self._model, self.apart, texts=self._texts)
        return Answerer(self._model, texts=self._texts)

    def _score(self, attempt: _Attempt) -> Commit:
        """Do all of it, and return the commit that stands then, whoever wrote it."""
        chunk, watch, dead = attempt.chunk, attempt.watch, attempt.dead_letters
        with watch.measuring("encode"):
            encoded = self._encode(attempt)
        if encoded.rows + dead.rows != chunk.rows:
            raise RowsMismatchError(
                f"{self._describe(chunk)}: {chunk.rows} rows were planned, {encoded.rows} came out"
                f" and {dead.rows} are dead letters"
            )
        with watch.measuring("store"):
            data = self._store_rows(attempt, encoded)
            dead_letters = self._store_dead_letters(attempt) if dead.rows else None
        commit = self._commit(attempt, data, dead_letters)
        standing = self._record.put_commit(commit)
        if standing.attempt != attempt.id:  # another attempt was first
            self._output.delete(data.key)
            if dead_letters:
                self._record.store.delete(dead_letters.key)
        return standing

    def _encode(self, attempt: _Attempt) -> EncodedRows:
        model, chunk = self._spec.model, attempt.chunk
        facts = {"schema": 1, "model_name": model.name, "model_version": model.version}
        facts |= {"model_digest": model.digest, "job_id": self._spec.job, "chunk_id": chunk.chunk}
        batches = (batch for piece in chunk.pieces for batch in self._scored(piece, attempt))
        schema, kind = with_facts(self._schema, facts), self._spec.request.output_format
        return self._parts.sink.encode(schema, batches, kind=kind)

    def _scored(self, piece: Piece, attempt: _Attempt) -> Iterator[pa.RecordBatch]:
        planned = self._plan.inputs[piece.input]
        read = self._parts.source.read(
            planned,
            first_row=piece.first_row,
            rows=piece.rows,
            columns=self._columns,
            batch_rows=self._batch_rows,
        )
        while True:
            with attempt.watch.measuring("read"):
                rows = next(read, None)
            if rows is None:
                return
            yield from self._answered(rows, attempt, source=planned.source)

    def _answered(
        self, rows: ReadRows, attempt: _Attempt, *, source: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have an answer, as one batch; the others become dead letters."""
        with attempt.watch.measuring("score"), _naming(rows, source):
            answered = attempt.answerer.answer(rows.batch)
        attempt.dead_letters.add(rows, answered.failed, source=source)
        kept, row_index = rows.batch, rows.row_index
        if answered.failed:
            kept = kept.take(pa.array(answered.places, type=pa.int64()))
            row_index = row_index[answered.places]
        if kept.num_rows:
            yield attempt.assembler.assemble(
                kept, answered.answers, source=source, row_index=row_index
            )

    def _store_rows(self, attempt: _Attempt, encoded: EncodedRows) -> CommittedRows:
        key = attempt_key(JobId(self._spec.job), attempt.chunk.id, attempt.id)
        return CommittedRows(
            key=key,
            etag=_put(self._output, key, encoded.body),
            bytes=len(encoded.body),
            rows=encoded.rows,
            sha256=hashlib.sha256(encoded.body).hexdigest(),
        )

    def _store_dead_letters(self, attempt: _Attempt) -> DeadLetters:
        key = dead_letter_key(JobId(self._spec.job), attempt.chunk.id, attempt.id)
        body = attempt.dead_letters.encode()
        return DeadLetters(
            key=key,
            etag=_put(self._record.store, key, body),
            bytes=len(body),
            rows=attempt.dead_letters.rows,
            sha256=hashlib.sha256(body).hexdigest(),
            reasons=attempt.dead_letters.reasons,
        )

    def _commit(
        self, attempt: _Attempt, data: CommittedRows, dead_letters: DeadLetters | None
    ) -> Commit:
        return Commit(
            job=self._spec.job,
            chunk=attempt.chunk.chunk,
            attempt=attempt.id,
            epoch=self._epoch,
            data=data,
            dead_letters=dead_letters,
            rows_in=attempt.chunk.rows,
            rows_out=data.rows,
            rows_dlq=dead_letters.rows if dead_letters else 0,
            model=self._spec.model,
            worker=self._worker,
            committed_at=self._parts.now(),
            timings=attempt.watch.timings(),
        )

    def _describe(self, chunk: PlannedChunk) -> str:
        first, more = chunk.pieces[0], len(chunk.pieces) - 1
        where = f"{self._plan.inputs[first.input].source}, rows {first.first_row} to "
        where += f"{first.first_row + first.rows - 1}"
        return f"{where} (and {more} more files)" if more else where


def _put(store: ObjectStore, key: str, body: bytes) -> str:
    """Store an attempt under its random name; refused, it can only be there already."""
    while True:
        written = store.put_if_absent(key, body)
        if isinstance(written, Written):
            return written.etag
        if (head := store.head(key)) is not None:
            return head.etag


@contextmanager
def _naming(rows: ReadRows, source: str) -> Iterator[None]:
    """Say which rows were too many for the memory."""
    try:
        yield
    except OutOfMemoryError as error:
        where = f"{source}, rows {rows.row_index[0]} to {rows.row_index[-1]}"
        raise OutOfMemoryError(f"{where}: {error}") from error
