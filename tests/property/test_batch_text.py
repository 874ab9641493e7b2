"""Whatever bytes a text file holds, each of its rows is read or told of, and always alike."""

import json
from contextlib import suppress
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate_batch.core.planning import Mark
from tidegate_batch.ports import ReadRows
from tidegate_batch.sources.delimited import Csv
from tidegate_batch.sources.dialect import Dialect, Heading, UnreadableRowsError, read_rows
from tidegate_batch.sources.jsonl import JsonLines
from tidegate_batch.sources.lines import RowCutter, Rows

COLUMNS = pa.schema([pa.field("a", pa.int64(), nullable=False)]).append(
    pa.field("s", pa.list_(pa.field("element", pa.float64())))
)
FLAT = pa.schema([pa.field("a", pa.int64(), nullable=False)]).append(pa.field("s", pa.string()))
JSON = Heading(first=Mark(row=0, line=1, offset=0))
CSV = Heading(names=("a", "s"), first=Mark(row=0, line=2, offset=0))

FRAGMENTS = [
    '{"a":',
    "1",
    "2.5",
    "}",
    "{",
    "}{",
    "\n",
    "\r\n",
    "\r",
    " ",
    ",",
    '"s":',
    "[1,",
    "null]",
]
FRAGMENTS += ['"', "\\", "NaN", "1e999", '{"a":1}\n', '{"a":2,"s":[1]}\n', "\x00", "é", '"a"', ":"]
json_text = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(
    lambda some: "".join(some).encode()
)
CELLS = [
    "1",
    ",",
    '"',
    '""',
    "\n",
    "\r\n",
    "\r",
    "x",
    "1,x\n",
    '2,"y\n"\n',
    " ",
    "é",
    "\x00",
    "9" * 20,
]
csv_text = st.lists(st.sampled_from(CELLS), max_size=14).map(lambda some: "".join(some).encode())
torn = st.binary(max_size=30)


def rows_of(content: bytes, dialect: Dialect, most_rows: int) -> list[Rows]:
    cutter = RowCutter(BytesIO(content), dialect.find_ends, at=Mark(row=0, line=1, offset=0))
    return list(iter(lambda: cutter.take(most_rows, 1 << 20), None))


def outcomes(
    content: bytes, dialect: Dialect, heading: Heading, columns: pa.Schema, most_rows: int
) -> dict[int, dict[str, Any] | tuple[str, str]]:
    """Return what became of each row: its values, or code and message."""
    found: dict[int, dict[str, Any] | tuple[str, str]] = {}
    for rows in rows_of(content, dialect, most_rows):
        read: ReadRows = read_rows(
            rows, lambda some, fields: dialect.parse(some, heading, fields), columns
        )
        good = dict(zip(map(int, read.row_index), read.batch.to_pylist(), strict=True))
        bad = {row.row: (row.code, row.message) for row in read.bad}
        assert not good.keys() & bad.keys()
        found |= {**good, **bad}
    return found


CASES = [(JsonLines(), JSON, COLUMNS), (Csv(), CSV, FLAT)]


@pytest.mark.parametrize(("dialect", "heading", "columns"), CASES, ids=["jsonl", "csv"])
@settings(max_examples=400, deadline=None)
@example(content=b'{"a":1}{"a":2}\n\n{"a":3}\n')
@example(content=b'1,"x\n2,y\n3,"z"\n')
@given(content=json_text | csv_text | torn)
def test_a_row_is_read_alike_alone_and_among_others(
    content: bytes, dialect: Dialect, heading: Heading, columns: pa.Schema
) -> None:
    together = outcomes(content, dialect, heading, columns, 1000)
    alone = outcomes(content, dialect, heading, columns, 1)
    assert list(together) == list(range(len(together))) or sorted(together) == sorted(alone)
    assert {row: str(told) for row, told in together.items()} == {
        row: str(told) for row, told in alone.items()
    }


@settings(max_examples=300, deadline=None)
@given(content=json_text | torn)
def test_a_line_is_good_only_if_it_is_json_and_its_values_are_those_of_json(content: bytes) -> None:
    for row, found in outcomes(content, JsonLines(), JSON, COLUMNS, 1000).items():
        if isinstance(found, dict):
            value = json.loads(content.split(b"\n")[row])
            assert value["a"] == found["a"]
            assert type(value["a"]) is int
            assert value.get("s") == found["s"]


@pytest.mark.parametrize(("dialect", "heading", "columns"), CASES, ids=["jsonl", "csv"])
@settings(max_examples=300, deadline=None)
@example(content=b'{"a":1' + b"0" * 5000 + b"}\n")
@example(content=b'{"a":' + b"[" * 5000)
@given(content=json_text | csv_text | torn)
def test_a_look_at_the_first_rows_ends_with_columns_or_a_reason(
    content: bytes, dialect: Dialect, heading: Heading, columns: pa.Schema
) -> None:
    with suppress(UnreadableRowsError):
        begin = dialect.heading(BytesIO(content))
        cutter = RowCutter(BytesIO(content), dialect.find_ends, at=begin.first)
        rows = cutter.take(1000, 1 << 20)
        if rows is not None:
            seen = dialect.observe(rows, begin, columns)
            assert seen.unreadable.keys() <= set(seen.schema.names)
