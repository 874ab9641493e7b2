"""What tells one kind of text file from another: how rows end, and what their values are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

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
BOM: Final = b"\xef\xbb\xbf"
_NOWHERE: Final = np.empty(0, dtype=np.int64)


class UnreadableRowsError(Exception):
    """At least one of these rows cannot be read; of a single one the reason is known."""

    def __init__(self, message: str, *, code: str = MALFORMED) -> None:
        super().__init__(message)
        self.code = code


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


def read_rows(rows: Rows, parse: Callable[[Rows], pa.RecordBatch], schema: pa.Schema) -> ReadRows:
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
            good.append((first, _checked(rows.slice(first, end), parse)))
        except UnreadableRowsError as error:
            if end - first == 1:
                bad.append(_bad_row(rows, first, error))
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


def _checked(rows: Rows, parse: Callable[[Rows], pa.RecordBatch]) -> pa.RecordBatch:
    if rows.longest_bytes > MOST_ROW_BYTES:
        raise UnreadableRowsError(f"the row is longer than {MOST_ROW_BYTES >> 20} MiB")
    if not rows.content.isascii():
        try:
            rows.content.decode()
        except UnicodeDecodeError as error:
            at = f"byte {error.start} of the row is 0x{rows.content[error.start]:02x}"
            raise UnreadableRowsError(f"the row is not UTF-8: {at}") from error
    return parse(rows)


def _bad_row(rows: Rows, place: int, error: UnreadableRowsError) -> BadRow:
    return BadRow(
        row=rows.start.row + place, line=rows.line(place), code=error.code, message=str(error)
    )
