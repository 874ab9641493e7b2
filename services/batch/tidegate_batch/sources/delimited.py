"""CSV as RFC 4180 has it: a header, commas, quotes around commas, quotes and line ends.

A quote opens a quoted field only at a field's beginning, as in Arrow's parser, which reads the
values; elsewhere it is a letter. Where a quoted field is not closed within ``MOST_ROW_BYTES``, its
first line alone is a malformed row, and reading goes on in the next. Blank lines are malformed
rows. An empty field is a missing value; ``""`` is an empty string.
"""

import csv
import re
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from tidegate_batch.core.planning import Mark
from tidegate_batch.core.wording import counted
from tidegate_batch.sources.dialect import (
    BOM,
    MISSING,
    MOST_TOLD,
    WRONG_TYPE,
    Heading,
    Observed,
    UnreadableRowsError,
)
from tidegate_batch.sources.json_values import described, shown
from tidegate_batch.sources.lines import MOST_ROW_BYTES, Ends, Rows, line_ends

_ROW: Final = re.compile(
    rb'(?:[^"\n]++|(?:(?<=[,\n])|\A)"(?:[^"]++|"")*+"|(?<=[^,\n])")*+(?:\n|\Z)'
)
"""What is no quote; a quoted field, which begins like any other; a quote elsewhere, a letter."""
_VALUE: Final = re.compile(
    r"In CSV column #(\d+): .*conversion error to .*: invalid value '(.*)'", re.S
)
_MOST_HEADER_BYTES: Final = 1 << 20


class Csv:
    """Reads CSV with Arrow's parser."""

    name = "CSV"

    def find_ends(self, content: bytes, is_last: bool) -> Ends:
        """Rows end with lines, but for line ends in quoted fields."""
        return row_ends(content, is_last)

    def heading(self, file: BinaryIO) -> Heading:
        """Read the first row as the names of the columns."""
        begin = file.read(_MOST_HEADER_BYTES)
        marked = len(BOM) if begin.startswith(BOM) else 0
        content = begin[marked:]
        ends = row_ends(content, len(begin) < _MOST_HEADER_BYTES)
        if not len(ends):
            raise UnreadableRowsError("expected a header in the first line, found nothing")
        if b"\r" in content[: int(ends[0])].rstrip(b"\r\n").replace(b"\r\n", b""):
            raise UnreadableRowsError(
                "its lines end with carriage returns alone; write line feeds (\\n) after them"
            )
        try:
            names = _fields(content[: int(ends[0])])
        except UnicodeDecodeError as error:
            raise UnreadableRowsError(f"its header is not UTF-8: {error.reason}") from error
        lines = content.count(b"\n", 0, int(ends[0]))
        return Heading(
            names=tuple(names),
            first=Mark(row=0, line=1 + lines, offset=marked + int(ends[0])),
        )

    def observe(self, rows: Rows, heading: Heading, wanted: pa.Schema) -> Observed:
        """Take the wanted types where a value fits them; every other column is text."""
        fields, unreadable = [], {}
        table = [_fields(rows.row(place), errors="replace") for place in range(len(rows))]
        for place, name in enumerate(heading.names):
            kind = wanted.field(name).type if name in wanted.names else pa.string()
            values = [row[place] for row in table if place < len(row) and row[place]]
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                unreadable[name] = "text, since CSV holds single values"
            elif values and not any(_converts(value, kind) for value in values):
                found = shown(values[0])
                unreadable[name] = f"nothing of that kind in the first rows, but {found}"
            fields.append(pa.field(name, kind))
        return Observed(schema=pa.schema(fields), unreadable=unreadable)

    def parse(self, rows: Rows, heading: Heading, columns: pa.Schema) -> pa.RecordBatch:
        """Read rows at once; all of them, or none."""
        try:
            _refuse_doubt(rows, heading)
            table = pc.read_csv(
                pa.BufferReader(_kept_whole(rows.content)),  # type: ignore[arg-type] # the stubs know only Python's files
                read_options=pc.ReadOptions(
                    use_threads=False,
                    block_size=len(rows.content) + len(BOM) + 1,
                    column_names=list(heading.names),
                ),
                parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=pc.ConvertOptions(
                    column_types={field.name: field.type for field in columns},
                    include_columns=columns.names,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            raise _explained(rows, heading, columns, str(error)) from error
        missing = [f.name for f in columns if not f.nullable and table[f.name].null_count]
        if missing:
            message = f"column {missing[0]!r} has no value, and the model needs one"
            raise UnreadableRowsError(message, code=MISSING, column=missing[0])
        if table.num_rows != len(rows):
            raise _explained(rows, heading, columns, "a line end within the row")
        batch: pa.RecordBatch = table.combine_chunks().to_batches()[0]
        return batch.cast(columns)


def row_ends(content: bytes, is_last: bool) -> Ends:
    """Find where rows end: at line ends that stand in no quoted field."""
    if b'"' not in content:
        return line_ends(content, is_last)
    ends = []
    begin = 0
    while begin < len(content):
        end = _row_end(content, begin, is_last)
        if end is None:
            break
        ends.append(end)
        begin = end
    return np.array(ends, dtype=np.int64)


def _row_end(content: bytes, begin: int, is_last: bool) -> int | None:
    """Return where a row ends; ``None`` if that cannot be told before more is read."""
    found = _ROW.match(content, begin)
    if found and found.end() - begin <= MOST_ROW_BYTES:
        is_whole = is_last or content[found.end() - 1] == ord("\n")
        return found.end() if is_whole else None
    if not is_last and len(content) - begin <= MOST_ROW_BYTES:
        return None
    line_end = content.find(b"\n", begin) + 1  # a quote that is never closed
    return line_end or (len(content) if is_last else None)


def _refuse_doubt(rows: Rows, heading: Heading) -> None:
    """Make sure that Arrow sees the same rows, or that there is but one.

    To Arrow a carriage return alone ends a row, a blank line is a row of missing values, and a
    quote may stay open at the end.
    """
    content = rows.content
    if b"\r" in content and content.count(b"\r") != content.count(b"\r\n") and len(rows) > 1:
        raise pa.ArrowInvalid("a carriage return without a line end")
    if len(heading.names) > 1 and not rows.row(len(rows) - 1).strip():
        raise pa.ArrowInvalid("the line is empty")
    if len(heading.names) > 1 and len(rows) > 1 and _BLANK.search(content):
        raise pa.ArrowInvalid("a line is empty")
    last = rows.row(len(rows) - 1)
    if b'"' in last and not _ROW.fullmatch(last):
        raise pa.ArrowInvalid("a quote is never closed")


def _kept_whole(content: bytes) -> bytes:
    """Arrow drops one byte order mark at the start, which here belongs to a row's first value.

    (Such rows stand where files were joined; the mark at the start of a file is never in a row.)
    """
    return BOM + content if content.startswith(BOM) else content


_BLANK: Final = re.compile(rb"(?:\A|\n)\r?\n")


def _explained(rows: Rows, heading: Heading, columns: pa.Schema, told: str) -> UnreadableRowsError:
    """Say what is wrong with a single row; of several, one is, and nobody knows which."""
    if len(rows) > 1:
        return UnreadableRowsError(told)
    if found := _VALUE.search(told):
        name = heading.names[int(found[1])]
        kind = columns.field(name).type
        message = f"column {name!r}: expected {described(kind)}, found {shown(found[2])}"
        return UnreadableRowsError(message, code=WRONG_TYPE, column=name)
    count = len(_fields(rows.row(0), errors="replace"))
    if rows.row(0).strip() and count != len(heading.names):
        fields = counted(len(heading.names), "field")
        return UnreadableRowsError(f"expected {fields} as in the header, found {count}")
    if b"\r" in rows.row(0).rstrip(b"\r\n"):
        return UnreadableRowsError("a carriage return stands outside of quotes")
    return UnreadableRowsError(told[:MOST_TOLD])


def _fields(row: bytes, *, errors: str = "strict") -> list[str]:
    text = row.decode("utf-8", errors=errors).rstrip("\r\n")
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # a carriage return alone, or a field beyond that module's limit
        return text.split(",")


def _converts(value: str, kind: pa.DataType) -> bool:
    try:
        pa.array([value]).cast(kind)
    except pa.ArrowException:
        return False
    return True
