"""JSON Lines: each line is one JSON object, a row with a value for each column.

A blank line is a malformed row, so that row ``n`` is line ``n + 1`` whatever stands in between;
only what follows the last row is passed over. Numbers are read exactly: an integer that its type
cannot hold makes a bad row, as does a string where a number is expected, or ``NaN``.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidegate_batch.core.planning import Mark
from tidegate_batch.sources.dialect import (
    BOM,
    MISSING,
    MOST_TOLD,
    WRONG_TYPE,
    Heading,
    Observed,
    UnreadableRowsError,
)
from tidegate_batch.sources.json_values import described, fits, shown, type_of
from tidegate_batch.sources.lines import Ends, Rows, line_ends

_SPACE: Final = b" \t\r\n"
_RETURN: Final = 13
_MOST_DIGITS: Final = 400
_TWICE: Final = re.compile(r"Column\(/(.*)\) was specified twice")
"""As Arrow says it; every other parser takes the last one, in silence."""


class JsonLines:
    """Reads lines of JSON with Arrow's parser."""

    name = "JSON Lines"

    def find_ends(self, content: bytes, is_last: bool) -> Ends:
        """Each line is a row."""
        return line_ends(content, is_last)

    def heading(self, file: BinaryIO) -> Heading:
        """Pass over a byte order mark; there is nothing else."""
        begin = len(BOM) if file.read(len(BOM)) == BOM else 0
        return Heading(first=Mark(row=0, line=1, offset=begin))

    def observe(self, rows: Rows, heading: Heading, wanted: pa.Schema) -> Observed:
        """Take the wanted types where values fit them, and tell the others from the values."""
        objects = list(_objects(rows))
        has_rows = bool(rows.content.strip(_SPACE))
        if has_rows and _is_array(rows.row(0).strip(_SPACE), has_objects=bool(objects)):
            raise UnreadableRowsError("it is one JSON array; write one object a line")
        if has_rows and not objects:
            raise _reason(rows.slice(0, 1), pa.schema([]), "the first line is no JSON object")
        names = dict.fromkeys(name for row in objects for name in row)
        fields, unreadable = [], {}
        for name in dict.fromkeys([*names, *_that_may_be_absent(wanted, has_rows=has_rows)]):
            values = [row[name] for row in objects if row.get(name) is not None]
            known = wanted.field(name).type if name in wanted.names else None
            kind, found = _type_of(values, known)
            fields.append(pa.field(name, kind))
            if found:
                unreadable[name] = found
        return Observed(schema=pa.schema(fields), unreadable=unreadable)

    def parse(self, rows: Rows, heading: Heading, columns: pa.Schema) -> pa.RecordBatch:
        """Read lines at once; all of them, or none."""
        content = _tight(rows)
        try:
            if content is None:
                raise pa.ArrowInvalid("not each line is one object")
            table = pj.read_json(
                pa.BufferReader(content),  # type: ignore[arg-type] # the stubs know only Python's files
                read_options=pj.ReadOptions(use_threads=False, block_size=len(content) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=_nullable(columns), unexpected_field_behavior="ignore"
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _reason(rows, columns, str(error)) from error
        if table.num_rows != len(rows):
            raise _reason(rows, columns, "more than one value stands in the line")
        batch: pa.RecordBatch = table.combine_chunks().to_batches()[0]
        if not all(_is_sound(batch.column(field.name), field) for field in columns):
            raise _reason(rows, columns, "a value is missing, or no number")
        return batch.select(columns.names).cast(columns)


def _tight(rows: Rows) -> bytes | None:
    """Return the lines if each begins and ends like an object; blanks around them are cut off.

    Two objects are never written ``}`` line end ``{`` within one value. If each line begins with
    the one and ends with the other, no value can go on in the next line, and as many values as
    lines means one in each.
    """
    letters = np.frombuffer(rows.content, dtype=np.uint8)
    begins = np.concatenate([[0], rows.ends[:-1]])
    lasts = rows.ends - 1
    lasts = lasts - (letters[lasts] == ord("\n"))
    lasts = lasts - (letters[lasts] == _RETURN)
    if np.all(letters[begins] == ord("{")) and np.all(letters[lasts] == ord("}")):
        return rows.content
    lines = [rows.row(place).strip(_SPACE) for place in range(len(rows))]
    is_tight = all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    return b"\n".join(lines) if is_tight else None


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _is_sound(column: "pa.Array[Any]", field: "pa.Field[Any]") -> bool:
    """Say whether no value is missing that must not be, and all numbers are numbers in JSON."""
    if column.null_count and not field.nullable:
        return False
    if pa.types.is_list(field.type):
        item = pa.field("element", field.type.value_type, nullable=field.nullable)
        return _is_sound(column.flatten(), item)  # type: ignore[attr-defined] # every list array has it
    return not pa.types.is_floating(field.type) or pc.all(pc.is_finite(column)).as_py() is not False


def _objects(rows: Rows) -> Iterator[dict[str, object]]:
    for place in range(len(rows)):
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(rows.row(place))
            if isinstance(value, dict):
                yield value


def _is_array(first_line: bytes, *, has_objects: bool) -> bool:
    """Tell a file that is one array from one whose first line is a bad row."""
    return first_line == b"[" or (first_line.startswith(b"[") and not has_objects)


def _that_may_be_absent(wanted: pa.Schema, *, has_rows: bool) -> list[str]:
    """Name the columns that a file has even if no row shows them; all, if there is no row."""
    return [field.name for field in wanted if field.nullable or not has_rows]


def _type_of(values: Sequence[object], wanted: pa.DataType | None) -> tuple[pa.DataType, str]:
    """Return the type to read values as, and what they are if they cannot be read so."""
    if wanted is None:
        kind = type_of(values)
        return (pa.string(), _several(values)) if kind is None else (kind, "")
    if not values or any(fits(value, wanted, may_be_null=True) for value in values):
        return wanted, ""
    return wanted, f"nothing of that kind in the first rows, but {shown(values[0])}"


def _several(values: Sequence[object]) -> str:
    odd = next((value for value in values if isinstance(value, dict)), None)
    if odd is None:
        others = (value for value in values if type(value) is not type(values[0]))
        return f"{shown(values[0])} beside {shown(next(others, values[-1]))}"
    return "an object"


def _explained(row: bytes, columns: pa.Schema) -> UnreadableRowsError | None:
    """Say what is wrong with a row that was refused; ``None`` if nothing is found."""
    if not row.strip(_SPACE):
        return UnreadableRowsError("the line is empty")
    try:
        text = row.decode(errors="replace")  # bytes might be taken for UTF-16
        value = json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        return UnreadableRowsError(f"the line is no JSON: {error.msg}, character {error.pos + 1}")
    except RecursionError:
        return UnreadableRowsError("the line is nested too deep")
    if not isinstance(value, dict):
        return UnreadableRowsError(f"expected a JSON object, found {shown(value)}")
    wrong = (_wrong(value.get(field.name), field) for field in columns)
    return next((error for error in wrong if error), None)


def _integer(digits: str) -> int | float:
    """Read an integer; one beyond every float is infinite, since Python refuses too many digits."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _wrong(value: object, field: "pa.Field[Any]") -> UnreadableRowsError | None:
    if value is None and not field.nullable:
        message = f"column {field.name!r} has no value, and the model needs one"
        return UnreadableRowsError(message, code=MISSING, column=field.name)
    if fits(value, field.type, may_be_null=field.nullable):
        return None
    message = f"column {field.name!r}: expected {described(field.type)}, found {shown(value)}"
    return UnreadableRowsError(message, code=WRONG_TYPE, column=field.name)


def _reason(rows: Rows, columns: pa.Schema, otherwise: str) -> UnreadableRowsError:
    """Say what is wrong with a single row; of several, one is, and nobody knows which."""
    if len(rows) > 1:
        return UnreadableRowsError(otherwise)
    if twice := _TWICE.search(otherwise):
        return UnreadableRowsError(f"column {twice[1]!r} stands in the line twice")
    return _explained(rows.row(0), columns) or UnreadableRowsError(otherwise[:MOST_TOLD])
