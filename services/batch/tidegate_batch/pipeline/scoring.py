"""What a worker does with a chunk: read, score, write, commit."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Final

import pyarrow as pa

from tidegate.clock import Clock
from tidegate.errors import (
    BackendError,
    PartUnavailableError,
    RequestRejectedError,
    TidegateError,
)
from tidegate.inference.arrays import Array, padded
from tidegate.inference.model import Model
from tidegate.objects.port import ObjectStore, Written
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE
from tidegate.units import ns_to_ms
from tidegate_batch.core.errors import ChunkFailedError, RowsMismatchError
from tidegate_batch.core.names import AttemptId, JobId, attempt_key
from tidegate_batch.core.planning import Piece, PlannedChunk
from tidegate_batch.core.records import Commit, CommittedRows, Plan, Timings
from tidegate_batch.pipeline.arrays import to_numpy
from tidegate_batch.pipeline.output import PROVENANCE, RowAssembler, prediction_types, with_facts
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.planning import planned_schema
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.ports import (
    Assignment,
    ChunkResult,
    Committed,
    EncodedRows,
    Failed,
    ReadRows,
)

MOST_BATCH_ROWS: Final = 4096
MOST_BATCH_BYTES: Final = 16 << 20
"""Of one batch's inputs and outputs; for rows such as images and texts it is the bytes that count,
and a vector for each token is many more of them than the tokens."""


def batch_rows_for(model: Model) -> int:
    """Return how many rows one call of the model gets; a fixed axis leaves no choice."""
    inputs, longest = model.signature.inputs, model.lengths[-1]
    if model.manifest.batch_axis == "fixed":
        return inputs[0].shape[0]
    row_bytes = sum(
        prod(longest if size == VARIABLE else size for size in spec.row_shape)
        * (DATATYPES[spec.datatype].item_bytes or 1)
        for spec in (*inputs, *model.signature.outputs)
    )
    return max(1, min(MOST_BATCH_ROWS, MOST_BATCH_BYTES // max(1, row_bytes)))


def answer_rows(model: Model, columns: Mapping[str, Array], *, rows: int) -> dict[str, Array]:
    """Score one batch of named columns, as the interactive path would each of its rows.

    Args:
        model: The model.
        columns: One array ``(rows, …)`` per column that it reads.
        rows: At least 1 and at most ``batch_rows_for(model)``.

    Returns:
        One array ``(rows, …)`` per prediction column.
    """
    inputs = model.tensors_from_columns(columns)
    if model.manifest.batch_axis == "fixed":
        missing = batch_rows_for(model) - rows
        inputs = padded(inputs, by_rows=missing)
    model.signature.check(inputs)
    outputs = model.run(inputs)
    asked, answered = ({k: v[:rows] for k, v in each.items()} for each in (inputs, outputs))
    return model.present(answered, asked)


class Stopwatch:
    """Adds up where a chunk's time goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ns = clock.now_ns()
        self._spent_ns: dict[str, int] = {}

    @contextmanager
    def measuring(self, what: str) -> Iterator[None]:
        """Add the time until the end of the block to ``what``."""
        began_ns = self._clock.now_ns()
        yield
        took_ns = self._clock.now_ns() - began_ns
        self._spent_ns[what] = self._spent_ns.get(what, 0) + took_ns

    def timings(self) -> Timings:
        """Return what was measured so far; encoding is what the others inside of it leave."""
        read, score = self._spent_ns.get("read", 0), self._spent_ns.get("score", 0)
        encode = self._spent_ns.get("encode", 0) - read - score
        return Timings(
            read_ms=ns_to_ms(read),
            score_ms=ns_to_ms(score),
            encode_ms=ns_to_ms(encode),
            store_ms=ns_to_ms(self._spent_ns.get("store", 0)),
            total_ms=ns_to_ms(self._clock.now_ns() - self._started_ns),
        )


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
        added = prediction_types(model.manifest).keys() | PROVENANCE.keys()
        kept = [name for name in self._schema.names if name not in added]
        self._columns = list(dict.fromkeys([*model.columns, *kept]))
        self._batch_rows = batch_rows_for(model)

    def score(self, assignment: Assignment) -> ChunkResult:
        """Score and commit a chunk; whatever goes wrong becomes a result that names the rows."""
        chunk = self._chunks[assignment.chunk]
        try:
            self._score(chunk, AttemptId(assignment.attempt))
        except TidegateError as error:
            return Failed(
                chunk=chunk.chunk,
                code=error.code,
                message=str(error),
                is_retriable=isinstance(error, PartUnavailableError),
            )
        except Exception as error:  # a bug must end the job, not the worker, for ever replaced
            message = f"{self._describe(chunk)}: {type(error).__name__}: {error}"
            return Failed(
                chunk=chunk.chunk, code=TidegateError.code, message=message, is_retriable=False
            )
        return Committed(chunk=chunk.chunk)

    def close(self) -> None:
        """Close the input that the last chunk was read from."""
        self._parts.source.close()

    def _score(self, chunk: PlannedChunk, attempt: AttemptId) -> None:
        watch = Stopwatch(self._parts.clock)
        with watch.measuring("encode"):
            encoded = self._encode(chunk, watch)
        if encoded.rows != chunk.rows:
            raise RowsMismatchError(
                f"{self._describe(chunk)}: {chunk.rows} rows were planned, {encoded.rows} came out"
            )
        with watch.measuring("store"):
            data = self._store(chunk, attempt, encoded)
        commit = self._commit(chunk, attempt, data, watch)
        if self._record.put_commit(commit).attempt != attempt:  # another attempt was first
            self._output.delete(data.key)

    def _encode(self, chunk: PlannedChunk, watch: Stopwatch) -> EncodedRows:
        model = self._spec.model
        facts = {"schema": 1, "model_name": model.name, "model_version": model.version}
        facts |= {"model_digest": model.digest, "job_id": self._spec.job, "chunk_id": chunk.chunk}
        assembler = RowAssembler(self._schema, model=model, job=self._spec.job, chunk=chunk.chunk)
        batches = (
            batch for piece in chunk.pieces for batch in self._scored(piece, assembler, watch)
        )
        return self._parts.sink.encode(with_facts(self._schema, facts), batches)

    def _scored(
        self, piece: Piece, assembler: RowAssembler, watch: Stopwatch
    ) -> Iterator[pa.RecordBatch]:
        planned = self._plan.inputs[piece.input]
        read = self._parts.source.read(
            planned,
            first_row=piece.first_row,
            rows=piece.rows,
            columns=self._columns,
            batch_rows=self._batch_rows,
        )
        while True:
            with watch.measuring("read"):
                rows = next(read, None)
            if rows is None:
                return
            _refuse_bad(rows, planned.source)
            with _naming(f"{planned.source}, rows {rows.row_index[0]} to {rows.row_index[-1]}"):
                with watch.measuring("score"):
                    answers = self._answers(rows.batch)
                yield assembler.assemble(
                    rows.batch, answers, source=planned.source, row_index=rows.row_index
                )

    def _answers(self, batch: pa.RecordBatch) -> dict[str, Array]:
        columns = {name: to_numpy(batch.column(name), name=name) for name in self._model.columns}
        return answer_rows(self._model, columns, rows=batch.num_rows)

    def _store(
        self, chunk: PlannedChunk, attempt: AttemptId, encoded: EncodedRows
    ) -> CommittedRows:
        key = attempt_key(JobId(self._spec.job), chunk.id, attempt)
        return CommittedRows(
            key=key,
            etag=self._put(key, encoded.body),
            bytes=len(encoded.body),
            rows=encoded.rows,
            sha256=hashlib.sha256(encoded.body).hexdigest(),
        )

    def _put(self, key: str, body: bytes) -> str:
        """Store an attempt under its random name; refused, it can only be there already."""
        while True:
            written = self._output.put_if_absent(key, body)
            if isinstance(written, Written):
                return written.etag
            if (head := self._output.head(key)) is not None:
                return head.etag

    def _commit(
        self, chunk: PlannedChunk, attempt: AttemptId, data: CommittedRows, watch: Stopwatch
    ) -> Commit:
        return Commit(
            job=self._spec.job,
            chunk=chunk.chunk,
            attempt=attempt,
            epoch=self._epoch,
            data=data,
            rows_in=chunk.rows,
            rows_out=data.rows,
            rows_dlq=0,
            model=self._spec.model,
            worker=self._worker,
            committed_at=self._parts.now(),
            timings=watch.timings(),
        )

    def _describe(self, chunk: PlannedChunk) -> str:
        first, more = chunk.pieces[0], len(chunk.pieces) - 1
        where = f"{self._plan.inputs[first.input].source}, rows {first.first_row} to "
        where += f"{first.first_row + first.rows - 1}"
        return f"{where} (and {more} more files)" if more else where


def _refuse_bad(rows: ReadRows, source: str) -> None:
    if rows.bad:
        first = rows.bad[0]
        raise ChunkFailedError(f"{source}, line {first.line.number}: {first.message}")


@contextmanager
def _naming(rows: str) -> Iterator[None]:
    """Say which rows were in the batch that raised."""
    try:
        yield
    except (BackendError, RequestRejectedError) as error:
        raise ChunkFailedError(f"{rows} (row 0 is the first of these): {error}") from error
