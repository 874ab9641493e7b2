"""Reading the dead letters that a job's commits name."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.objects.port import ObjectStore
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.records import DeadLetters, Plan
from tidegate_batch.pipeline.record import JobRecord

_SHOWN: Final = ["_source", "_row_index", "_line", "_error_code", "_error_message"]
DeadRows: TypeAlias = dict[str, npt.NDArray[np.int64]]
"""By input file: which rows of it are dead letters, ``(rows,)``, in the order of the file."""


def read_dead_letters(store: ObjectStore, file: DeadLetters) -> pa.Table:
    """Read one chunk's dead letters.

    Raises:
        JobRecordError: They are gone, or not what was committed.
    """
    stored = store.get(file.key)
    if stored is None or hashlib.sha256(stored.body).hexdigest() != file.sha256:
        what = "is not the file that was committed: its digest differs" if stored else "is missing"
        raise JobRecordError(f"{file.key} in {store.url} {what}. Restore it from a backup.")
    # Without threads: one that still holds the bytes when Python ends aborts the whole process.
    with pq.ParquetFile(pa.BufferReader(stored.body)) as parquet:
        table = parquet.read(use_threads=False)
    if table.num_rows != file.rows:
        raise JobRecordError(f"{file.key}: {table.num_rows} dead letters, {file.rows} committed")
    return table


def dead_rows(table: pa.Table) -> DeadRows:
    """Return where dead letters came from."""
    sources = np.asarray(table["_source"].to_pylist(), dtype=object)
    rows = table["_row_index"].to_numpy()
    return {str(source): rows[sources == source] for source in dict.fromkeys(sources)}


def committed_dead_letters(record: JobRecord, plan: Plan) -> list[tuple[ChunkId, DeadLetters]]:
    """Return the dead letters of each chunk that is committed and has some, in plan order."""
    return [
        (ChunkId(commit.chunk), commit.dead_letters)
        for commit in record.commits(plan)
        if commit is not None and commit.dead_letters is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One row without an answer, for people."""

    source: str
    row: int
    """Counted from 0 within ``source``."""
    line: int | None
    """Counted from 1; ``None`` where files have no lines."""
    code: str
    message: str

    @property
    def place(self) -> str:
        """Where to look for it."""
        place = f"row {self.row}" if self.line is None else f"line {self.line}"
        return f"{self.source}, {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why rows have no answer."""

    code: str
    rows: int
    first: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The dead letters of a job, as far as it is committed."""

    rows: int
    reasons: tuple[Reason, ...]
    """The most frequent first."""
    first: tuple[DeadLetter, ...]
    """Of all reasons, in input order."""


def summarize(store: ObjectStore, files: Sequence[DeadLetters], *, most: int) -> Summary:
    """Count dead letters by reason, and read the first of each and some of all.

    Args:
        store: Of the job.
        files: Of its chunks, in order; no more of them are read than are needed.
        most: How many rows of all are wanted.
    """
    counts = Counter[str]()
    for file in files:
        counts.update(file.reasons)
    first: list[DeadLetter] = []
    of_reason: dict[str, DeadLetter] = {}
    for file in files:
        if len(first) >= most and of_reason.keys() >= counts.keys():
            break
        for letter in map(_letter, read_dead_letters(store, file).select(_SHOWN).to_pylist()):
            first += [letter] if len(first) < most else []
            of_reason.setdefault(letter.code, letter)
    return Summary(
        rows=counts.total(),
        reasons=tuple(
            Reason(code=code, rows=rows, first=of_reason[code])
            for code, rows in counts.most_common()
        ),
        first=tuple(first),
    )


def _letter(row: Mapping[str, Any]) -> DeadLetter:
    return DeadLetter(
        source=row["_source"],
        row=row["_row_index"],
        line=row["_line"],
        code=row["_error_code"],
        message=row["_error_message"],
    )
