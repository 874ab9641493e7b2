"""What tells one kind of text file from another: how rows end, and what their values are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate_batch.core.planning import Mark
from tidegate_batch.ports import BadRow, ReadRows
from tidegate_batch.sources.lines import MOST_ROW_BYTES, Ends, Rows

MALFORMED: Final = "malformed_row"
"""The text is no row: not JSON, another number of fields, not UTF-8, too long."""
WRONG_TYPE: Final = "wrong_type"
"""A value is not of its column's type."""
MISSING: Final = "missing_value"
"""A column that the model needs has no value."""
MOST_TOLD: Final = 200
"""Letters of what Arrow says of a row, which may hold the whole of it."""
_MOST_BLAMED: Final = 8
"""Columns of a bad row: it is read once more for each, and with so many little of it is right."""
BOM: Final = b"\xef\xbb\xbf"
_NOWHERE: Final = np.empty(0, dtype=np.int64)


class UnreadableRowsError(Exception):
    """At least one of these rows cannot be read; of a single one the reason is known."""

    def __init__(self, message: str, *, code: str = MALFORMED, column: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.column = column
        """The one whose value is to blame; ``None`` if it is the row as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What stands before the first row."""

    names: tuple[str, ...] = ()
    """The columns, where the file names them once for all rows."""
    first: Mark
    """Where the first row begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the first rows of a file show."""

    schema: pa.Schema
    """The types that its columns are to be read as."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Columns that cannot be read like that, and what they hold instead, for people."""


class Dialect(Protocol):
    """One kind of text file."""

    name: str
    """For people."""

    def find_ends(self, content: bytes, is_last: bool) -> Ends:
        """Tell where rows end; see ``lines.FindEnds``."""
        ...

    def heading(self, file: BinaryIO) -> Heading:
        """Read what stands before the first row.

        Raises:
            UnreadableRowsError: The file has no such thing, and needs it.
        """
        ...

    def observe(self, rows: Rows, heading: Heading, wanted: pa.Schema) -> Observed:
        """Tell the columns from the first rows, maybe none.

        Args:
            rows: What was looked at.
            heading: That of the file.
            wanted: The types of the columns for which they are decided already.

        Raises:
            UnreadableRowsError: Not a single row can be read.
        """
        ...

    def parse(self, rows: Rows, heading: Heading, columns: pa.Schema) -> pa.RecordBatch:
        """Read all rows, at least one; text is checked before.

        Raises:
            UnreadableRowsError: One of them cannot be read.
        """
        ...


Parse: TypeAlias = Callable[[Rows, pa.Schema], pa.RecordBatch]
"""Reads these columns of rows, as ``Dialect.parse`` does."""


def read_rows(rows: Rows, parse: Parse, schema: pa.Schema) -> ReadRows:
    """Read what can be read, and find what cannot, by halving where something fails.

    All rows go through the same parser, together or alone, so that what becomes of a row does
    not depend on its neighbours.
    """
    good: list[tuple[int, pa.RecordBatch]] = []
    bad: list[BadRow] = []
    waiting = [(0, len(rows))]
    while waiting:
        first, end = waiting.pop()
        try:
            some = rows.slice(first, end)
            good.append((first, _checked(some, parse, schema)))
        except UnreadableRowsError as error:
            if end - first == 1:
                values = _readable(some, parse, schema, error)
                bad.append(_bad_row(rows, first, error, values))
            else:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]  # the first half is next
    places = np.concatenate(
        [np.arange(first, first + batch.num_rows) for first, batch in good] or [_NOWHERE]
    )
    return ReadRows(
        batch=pa.concat_batches(  # type: ignore[attr-defined] # newer than the stubs
            [batch for _, batch in good] or [pa.RecordBatch.from_pylist([], schema=schema)]
        ),
        row_index=places + rows.start.row,
        bad=tuple(bad),
        line=lambda place: rows.line(int(places[place])),
    )


def _checked(rows: Rows, parse: Parse, schema: pa.Schema) -> pa.RecordBatch:
    if rows.longest_bytes > MOST_ROW_BYTES:
        raise UnreadableRowsError(f"the row is longer than {MOST_ROW_BYTES >> 20} MiB")
    if not rows.content.isascii():
        try:
            rows.content.decode()
        except UnicodeDecodeError as error:
            at = f"byte {error.start} of the row is 0x{rows.content[error.start]:02x}"
            raise UnreadableRowsError(f"the row is not UTF-8: {at}") from error
    return parse(rows, schema)


def _readable(
    row: Rows, parse: Parse, schema: pa.Schema, error: UnreadableRowsError
) -> pa.RecordBatch | None:
    """Read a bad row without the columns that are to blame; its key may be among the others."""
    left = {field.name: field.with_nullable(True) for field in schema}
    for _ in range(_MOST_BLAMED):
        if error.column is None or left.pop(error.column, None) is None or not left:
            break
        try:
            return parse(row, pa.schema(list(left.values())))
        except UnreadableRowsError as another:
            error = another
    return None


def _bad_row(
    rows: Rows, place: int, error: UnreadableRowsError, values: pa.RecordBatch | None
) -> BadRow:
    return BadRow(
        row=rows.start.row + place,
        line=rows.line(place),
        code=error.code,
        message=str(error),
        values=values,
    )
