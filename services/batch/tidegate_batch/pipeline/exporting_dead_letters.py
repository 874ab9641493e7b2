"""Taking dead letters out of the store: all of a job's in one file, or as another job's input."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import SettingError
from tidegate.objects.port import ObjectStore
from tidegate_batch.core.errors import MENDED_BY_NO_RESUME, JobConflictError
from tidegate_batch.core.names import ChunkId, retry_key, retry_prefix
from tidegate_batch.core.records import DeadLetters, JobState
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.fitting import common_schema, fitted
from tidegate_batch.pipeline.output import DEAD_LETTER_FACTS
from tidegate_batch.pipeline.reading_dead_letters import committed_dead_letters, read_dead_letters
from tidegate_batch.pipeline.record import JobRecord

RETRIED: Final = ("_retried_source", "_retried_row_index")
"""Where a row that is tried again stood in the first place."""


def write_dead_letters(store: ObjectStore, files: Sequence[DeadLetters], target: Path) -> None:
    """Write the dead letters of all chunks as one file, or leave what was there.

    Args:
        store: Of the job.
        files: Of its chunks, in order; one after the other is in memory.
        target: Its ending says whether it becomes Parquet or JSON Lines.

    Raises:
        SettingError: It cannot be written, or has another ending.
        JobRecordError: Dead letters are gone, or not what was committed.
    """
    write = _WRITERS.get(target.suffix)
    if write is None:
        raise SettingError(f"--out {target} ends in neither {' nor '.join(_WRITERS)}")
    schema = common_schema(read_dead_letters(store, file).schema for file in files)
    tables = (fitted(read_dead_letters(store, file), schema) for file in files)
    with _replacing(target) as out:
        write(out, schema, tables)


def _write_parquet(out: BinaryIO, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def _write_lines(out: BinaryIO, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    for table in tables:
        readable = [_readable(column) for column in table.columns]
        for row in pa.table(readable, names=table.schema.names).to_pylist():
            out.write(msgspec.json.encode(row, enc_hook=str) + b"\n")


def _readable(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Replace what is no UTF-8 in a text; it may be why the row is here."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        values = column.cast(pa.binary()).to_pylist()
        texts = [None if value is None else value.decode(errors="replace") for value in values]
        return pa.chunked_array([pa.array(texts, type=pa.string())])
    return column


_Writer = Callable[[BinaryIO, pa.Schema, Iterator[pa.Table]], None]
_WRITERS: Final[dict[str, _Writer]] = {".parquet": _write_parquet, ".jsonl": _write_lines}


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the target's place once it is whole."""
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as out:
            yield out
        os.replace(part, target)
    except OSError as error:
        raise SettingError(f"--out cannot write {target}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryInput:
    """Dead letters as the input of another job."""

    url: str
    rows: int
    unread: int
    """Rows that are left out, because they could not be read and would not be now."""


def make_retry_input(record: JobRecord) -> RetryInput:
    """Write the rows that have no answer as files that a job can read; again changes nothing.

    Each holds the columns that the job has read, and where the row stood in the first place.

    Raises:
        JobConflictError: The job is not published, or has no such rows.
    """
    state, plan = record.state(), record.plan()
    if state is None or plan is None or state.state is not State.PUBLISHED:
        raise _not_published(record, state)
    rows = unread = 0
    for chunk, file in committed_dead_letters(record, plan):
        table = read_dead_letters(record.store, file)
        again = _as_input(table.filter(table["_was_read"]))
        unread += table.num_rows - again.num_rows
        rows += again.num_rows
        _put_retry(record, chunk, again)
    if not rows:
        raise _nothing_to_try(record, unread)
    url = f"{record.store.url.rstrip('/')}/{retry_prefix(record.job)}"
    return RetryInput(url=url, rows=rows, unread=unread)


def _nothing_to_try(record: JobRecord, unread: int) -> JobConflictError:
    if not unread:
        return JobConflictError(
            f"job {record.job} has no dead letters: there is nothing to try again."
        )
    return JobConflictError(
        f"job {record.job} has only rows that could not be read, {unread} of them, and would not "
        f"be now. Correct the lines that 'tidegate batch dead-letters {record.job}' names, and "
        "submit those as a new job."
    )


def _not_published(record: JobRecord, state: JobState | None) -> JobConflictError:
    if state and state.failure and state.failure.code in MENDED_BY_NO_RESUME:
        return JobConflictError(
            f"job {record.job} has failed ({state.failure.code}), and a resume would fail again: "
            "none of its rows have answers that stand. Submit a new job over all of them; how "
            "many may be bad is its --max-bad-rows."
        )
    return JobConflictError(
        f"job {record.job} is not published, and may score these rows itself yet. Go on with "
        f"it first: 'tidegate batch resume {record.job}'."
    )


def _as_input(table: pa.Table) -> pa.Table:
    columns = {name: table[name] for name in table.schema.names if name not in DEAD_LETTER_FACTS}
    source, row_index = RETRIED
    if source not in columns:
        columns[source] = table["_source"].cast(pa.string())
        columns[row_index] = table["_row_index"]
    return pa.table(columns)


def _put_retry(record: JobRecord, chunk: ChunkId, table: pa.Table) -> None:
    if table.num_rows:
        stream = pa.BufferOutputStream()
        # Without statistics no missing value keeps the others of these rows from being tried.
        pq.write_table(table, stream, compression="zstd", write_statistics=False)
        record.store.put_if_absent(retry_key(record.job, chunk), stream.getvalue().to_pybytes())
