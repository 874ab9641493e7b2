"""CSV: rows end where they do, types come from the model, and every malformed row has its line."""

import csv
import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures import row_files
from tests.fixtures.row_files import found_at, planned, read
from tidegate.errors import JobError
from tidegate.objects.opening import open_store
from tidegate_batch.sources import delimited
from tidegate_batch.sources.files import FileSource

_COLUMNS: list["pa.Field[Any]"] = [
    pa.field("x", pa.float64(), nullable=False),
    pa.field("n", pa.int64()),
    pa.field("s", pa.string()),
    pa.field("b", pa.bool_()),
]
COLUMNS = pa.schema(_COLUMNS)
HEADER = b"n,x,s,b\n"


@pytest.fixture
def source() -> Iterator[FileSource]:
    with closing(FileSource(open_store)) as opened:
        yield opened


def rows_of(
    tmp_path: Path, content: bytes, columns: pa.Schema = COLUMNS
) -> tuple[list[dict[str, object]], dict[int, tuple[str, str]]]:
    return row_files.rows_of(tmp_path / "rows.csv", content, columns)


def test_types_are_those_that_are_wanted_whatever_the_text_looks_like(tmp_path: Path) -> None:
    content = HEADER + b"9223372036854775807,1,007,true\n-1,0.1,2024-01-01,False\n"
    good, bad = rows_of(tmp_path, content)
    assert bad == {}
    assert good == [
        {"x": 1.0, "n": 2**63 - 1, "s": "007", "b": True},
        {"x": 0.1, "n": -1, "s": "2024-01-01", "b": False},
    ]


def test_an_empty_field_is_missing_and_quotes_make_an_empty_string(tmp_path: Path) -> None:
    good, bad = rows_of(tmp_path, HEADER + b',1,,\n,2,"",\n')
    assert ([row["s"] for row in good], bad) == ([None, ""], {})
    assert good[0]["n"] is None


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 4])
def test_a_byte_order_mark_within_a_file_stays_wherever_batches_are_cut(
    tmp_path: Path, batch_rows: int
) -> None:
    file = tmp_path / "rows.csv"
    marked = "\ufeff"
    file.write_text(f"{marked}s,n\na,1\n{marked}b,2\n{marked}{marked}c,3\n{marked},4\n")
    columns = pa.schema([_COLUMNS[2], _COLUMNS[1]])
    with closing(FileSource(open_store)) as source:
        good, bad = read(source, planned(found_at(file)), columns, batch_rows=batch_rows)
    assert bad == []
    assert [row["s"] for row in good] == ["a", f"{marked}b", f"{marked}{marked}c", marked]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b"1,2,a", "malformed_row", "expected 4 fields as in the header, found 3"),
        (b"1,2,a,true,5", "malformed_row", "expected 4 fields as in the header, found 5"),
        (b"", "malformed_row", "the line is empty"),
        (b"1,2,\xff,true", "malformed_row", "not UTF-8"),
        (b"1,2,a\rb,true", "malformed_row", "a carriage return"),
        (b'1,2,a,"true', "malformed_row", "a quote is never closed"),
        (b"1,abc,a,true", "wrong_type", "column 'x': expected a number, found the string 'abc'"),
        (b"1.5,2,a,true", "wrong_type", "column 'n': expected an integer (int64), found"),
        (b"9223372036854775808,2,a,true", "wrong_type", "column 'n': expected an integer"),
        (b"1,2,a,maybe", "wrong_type", "column 'b': expected true or false, found"),
        (b"1,,a,true", "missing_value", "column 'x' has no value"),
    ],
)
def test_a_malformed_row_is_told_by_its_line_and_the_others_are_read(
    tmp_path: Path, line: bytes, code: str, message: str
) -> None:
    good = b"1,2,a,true"
    rows, bad = rows_of(tmp_path, HEADER + b"\n".join([good, good, line, good]))
    assert len(rows) == 3
    assert list(bad) == [4]
    assert bad[4][0] == code
    assert message in bad[4][1]


def test_a_blank_line_is_a_bad_row_even_if_no_column_needs_a_value(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("s", pa.string())])
    good, bad = rows_of(tmp_path, HEADER + b"1,2,a,1\n\n1,2,b,1\r\n\r\n,,,\n", columns)
    assert [row["s"] for row in good] == ["a", "b", None]
    assert {line: code for line, (code, _) in bad.items()} == {
        3: "malformed_row",
        5: "malformed_row",
    }


def test_quoted_fields_hold_commas_quotes_and_line_ends_and_lines_are_counted(
    tmp_path: Path,
) -> None:
    content = b'n,"a ""b"",\n c",x\r\n1,"one, ""two""\nthree",1\r\n2,5" pipe,2\r\nx,"\n\n",3\r\n'
    names = ["n", 'a "b",\n c', "x"]
    columns = pa.schema([pa.field("n", pa.int64())]).append(pa.field(names[1], pa.string()))
    good, bad = rows_of(tmp_path, content, columns)
    assert [row[names[1]] for row in good] == ['one, "two"\nthree', '5" pipe']
    assert list(bad) == [6]
    assert "column 'n'" in bad[6][1]


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("n", pa.int64())]).append(pa.field("s", pa.string()))
    good, bad = rows_of(tmp_path, b'n,s\n1,a\n2,"oops\n3,c\n4,""\n', columns)
    assert [row["n"] for row in good] == [1, 3, 4]
    assert bad == {3: ("malformed_row", "a quote is never closed")}


def test_marks_lie_between_rows_where_quoted_line_ends_are(
    tmp_path: Path, source: FileSource
) -> None:
    file = tmp_path / "rows.csv"
    texts = ["", "one\n", "one\ntwo\n"]
    lines = [f'{n},"{texts[n % 3]}",{n}' for n in range(5000)]
    file.write_text("n,s,x\n" + "\n".join(lines) + "\n")
    plan = planned(found_at(file), chunk_rows=1000)
    assert [mark.row for mark in plan.marks] == [1000, 2000, 3000, 4000]
    columns = pa.schema([pa.field("n", pa.int64())])
    for first, rows in [(0, 5000), (3999, 2), (4000, 100), (17, 2500), (2000, 1)]:
        good, bad = read(source, plan, columns, first_row=first, rows=rows, batch_rows=300)
        assert [row["n"] for row in good] == list(range(first, first + rows))
        assert bad == []
    source.close()
    (part,) = source.read(plan, first_row=4000, rows=3, columns=columns, batch_rows=9)
    assert part.line is not None
    assert part.line(0).number == 2 + sum(1 + n % 3 for n in range(4000))


def test_a_header_alone_is_a_file_without_rows(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"\xef\xbb\xbfn,x,s,b\r\n") == ([], {})


def test_an_empty_file_has_no_header(tmp_path: Path, source: FileSource) -> None:
    (tmp_path / "rows.csv").write_bytes(b"")
    with pytest.raises(JobError, match="expected a header in the first line, found nothing"):
        source.describe(found_at(tmp_path / "rows.csv"), wanted=pa.schema([]))


def test_columns_are_those_of_the_header_and_text_unless_wanted(
    tmp_path: Path, source: FileSource
) -> None:
    (tmp_path / "rows.csv").write_bytes(b"id,x,n\n1,abc,5\n2,,6\n")
    shape = source.describe(found_at(tmp_path / "rows.csv"), wanted=COLUMNS)
    types = {field.name: field.type for field in shape.schema}
    assert types == {"id": pa.string(), "x": pa.float64(), "n": pa.int64()}
    assert shape.unreadable == {"x": "nothing of that kind in the first rows, but the string 'abc'"}


FIELDS = st.text(st.sampled_from('ab ,"\n\r\u00e9'), max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_whatever_a_writer_of_csv_writes_comes_back(rows: list[tuple[str, str]], end: str) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    content = stream.getvalue().encode()
    ends = delimited.row_ends(content, True)
    assert len(ends) == len(rows)
    cut = [content[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    assert [next(csv.reader(io.StringIO(row.decode(), newline=""))) for row in cut] == [
        list(row) for row in rows
    ]


def ends_by_hand(content: bytes) -> list[int]:
    """Find where rows end, letter by letter, as RFC 4180 describes it."""
    ends, begin = [], 0
    while begin < len(content):
        place, at_field_start, is_quoted = begin, True, False
        while place < len(content):
            letter = content[place : place + 1]
            if is_quoted and content[place : place + 2] == b'""':
                place += 1
            elif letter == b'"' and (is_quoted or at_field_start):
                is_quoted = not is_quoted
            elif letter == b"\n" and not is_quoted:
                break
            at_field_start = letter == b"," and not is_quoted
            place += 1
        if is_quoted:  # never closed: its line alone is the row
            place = content.find(b"\n", begin) % (len(content) + 1)
        begin = min(place + 1, len(content))
        ends.append(begin)
    return ends


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60).map(lambda raw: bytes(b'a,"\n'[byte % 4] for byte in raw)))
def test_rows_end_where_they_do_letter_by_letter(content: bytes) -> None:
    assert list(delimited.row_ends(content, True)) == ends_by_hand(content)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60).map(lambda raw: bytes(b'a,"\n'[byte % 4] for byte in raw)))
def test_rows_end_alike_however_much_is_read_at_a_time(content: bytes) -> None:
    whole = delimited.row_ends(content, True)
    for size in range(len(content)):
        part = delimited.row_ends(content[:size], False)
        assert list(part) == list(whole[: len(part)])
    assert not content or whole[-1] == len(content)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"7,,a,true", {"n": 7, "s": "a", "b": True}),
        (b"7,many,a,true", {"n": 7, "s": "a", "b": True}),
        (b"7,many,a,maybe", {"n": 7, "s": "a"}),
        (b"x,y,a,z", {"s": "a"}),
        (b"7,1,a", None),
    ],
)
def test_of_a_bad_row_the_columns_that_are_not_to_blame_are_read_all_the_same(
    tmp_path: Path, line: bytes, values: dict[str, object] | None
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(HEADER + b"1,1,a,true\n" + line + b"\n")
    with closing(FileSource(open_store)) as source:
        _, (bad,) = read(source, planned(found_at(file)), COLUMNS)
    assert (bad.values and bad.values.to_pylist()) == ([values] if values else None)
