"""Dead letters: the rows of a chunk that have no answer, each as it was and with the reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_batch.core.records import PinnedModel
from tidegate_batch.pipeline.answering import FailedRow
from tidegate_batch.pipeline.arrays import decoded
from tidegate_batch.pipeline.fitting import joined
from tidegate_batch.pipeline.output import DEAD_LETTER_FACTS, with_facts
from tidegate_batch.ports import Line, ReadRows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Letter:
    """One row and its reason."""

    row: int
    place: int | None
    """In its batch; ``None`` for a row that could not be read."""
    code: str
    message: str
    line: Line | None
    values: pa.RecordBatch | None = None
    """Of a row that could not be read: one row of the columns that can be."""


class DeadLetterBox:
    """Gathers the dead letters of one attempt at one chunk, in input order."""

    def __init__(self, *, model: PinnedModel, job: str, chunk: str, attempt: str) -> None:
        self._facts: dict[str, object] = {
            "_attempt": attempt,
            "_model_name": model.name,
            "_model_version": model.version,
            "_model_digest": model.digest,
            "_job_id": job,
            "_chunk_id": chunk,
        }
        self._tables: list[pa.Table] = []
        self._reasons = Counter[str]()

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows there are, by the code of the error."""
        return dict(self._reasons)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._reasons.total()

    def add(self, rows: ReadRows, failed: Sequence[FailedRow], *, source: str) -> None:
        """Take the rows that could not be read, and those that could not be answered.

        Args:
            rows: As the source gave them.
            failed: Rows of ``rows.batch``.
            source: The input file.
        """
        if not rows.bad and not failed:
            return
        letters = [_unread(rows), _unanswered(rows, failed)]
        ordered = sorted((one for some in letters for one in some), key=lambda one: one.row)
        self._reasons.update(letter.code for letter in ordered)
        self._tables.append(self._table(rows.batch, ordered, source=source))

    def encode(self) -> bytes:
        """Write all of them as one Parquet file."""
        table = joined(self._tables)
        facts = {name.removeprefix("_"): value for name, value in self._facts.items()}
        schema = with_facts(table.schema, {"schema": 1, **facts})
        stream = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(schema.metadata), stream, compression="zstd")
        return stream.getvalue().to_pybytes()

    def _table(self, batch: pa.RecordBatch, letters: Sequence[_Letter], *, source: str) -> pa.Table:
        names = [name for name in batch.schema.names if name not in DEAD_LETTER_FACTS]
        columns: dict[str, pa.Array[Any]] = {
            name: _column(batch, letters, name=name) for name in names
        }
        facts: Mapping[str, Sequence[object]] = {
            **{name: [value] * len(letters) for name, value in self._facts.items()},
            "_source": [source] * len(letters),
            "_error_code": [letter.code for letter in letters],
            "_error_message": [letter.message for letter in letters],
            "_row_index": [letter.row for letter in letters],
            "_was_read": [letter.place is not None for letter in letters],
            "_line": [letter.line and letter.line.number for letter in letters],
            "_text": [letter.line and letter.line.text for letter in letters],
        }
        for name, kind in DEAD_LETTER_FACTS.items():
            columns[name] = pa.array(facts[name], type=kind)
        return pa.table(columns)


def _column(batch: pa.RecordBatch, letters: Sequence[_Letter], *, name: str) -> "pa.Array[Any]":
    """Return a column of dead letters; it misses values of rows that could not be read."""
    arrays = [decoded(batch.column(name))]
    places = []
    for letter in letters:
        place = letter.place
        if letter.values is not None and name in letter.values.schema.names:
            place = batch.num_rows + len(arrays) - 1
            arrays.append(letter.values.column(name))
        places.append(place)
    return pa.concat_arrays(arrays).take(pa.array(places, type=pa.int64()))


def _unread(rows: ReadRows) -> list[_Letter]:
    return [
        _Letter(
            row=bad.row,
            place=None,
            code=bad.code,
            message=bad.message,
            line=bad.line,
            values=bad.values,
        )
        for bad in rows.bad
    ]


def _unanswered(rows: ReadRows, failed: Sequence[FailedRow]) -> list[_Letter]:
    return [
        _Letter(
            row=int(rows.row_index[row.place]),
            place=row.place,
            code=row.code,
            message=row.message,
            line=rows.line(row.place) if rows.line else None,
        )
        for row in failed
    ]
