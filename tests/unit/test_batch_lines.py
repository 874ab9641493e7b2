"""Cutting text into rows: the same rows wherever one begins, however long they are."""

import io

import pytest

from tidegate_batch.core.formats import endings_of, format_of
from tidegate_batch.core.planning import Mark, RowGroup, marks_for, plan_chunks
from tidegate_batch.sources.lines import RowCutter, line_ends

START = Mark(row=0, line=1, offset=0)


def cutter(content: bytes, at: Mark = START, most_row_bytes: int = 1 << 20) -> RowCutter:
    return RowCutter(io.BytesIO(content), line_ends, at=at, most_row_bytes=most_row_bytes)


def test_rows_are_taken_by_number_and_by_bytes_but_always_one() -> None:
    cut = cutter(b"a\nbb\nccc\ndddd\n")
    taken = [cut.take(2, 100), cut.take(9, 1), cut.take(9, 100), cut.take(9, 100)]
    assert [rows and rows.content for rows in taken] == [b"a\nbb\n", b"ccc\n", b"dddd\n", None]


def test_the_last_row_needs_no_line_end() -> None:
    rows = cutter(b"a\nb").take(9, 99)
    assert rows is not None
    assert [rows.row(place) for place in range(len(rows))] == [b"a\n", b"b"]


def test_a_slice_knows_where_it_stands() -> None:
    rows = cutter(b"skipped\na\nbb\nccc\n", Mark(row=7, line=9, offset=8)).take(9, 99)
    assert rows is not None
    part = rows.slice(1, 3)
    assert part.start == Mark(row=8, line=10, offset=10)
    assert part.row(1) == b"ccc\n"
    assert (rows.line(2).number, rows.line(2).text) == (11, "ccc")


def test_a_slice_behind_a_row_that_was_shortened_knows_where_it_stands() -> None:
    content = b"a\n" + b"x" * (3 << 20) + b"\nb\nc\n"
    rows = cutter(content).take(9, 9 << 20)
    assert rows is not None
    part = rows.slice(1, 4).slice(1, 3)
    assert (part.content, part.start.line) == (b"b\nc\n", 3)
    assert content[part.start.offset :] == b"b\nc\n"


@pytest.mark.parametrize("length", [(1 << 20) + 1, 3 << 20, (4 << 20) + 17])
def test_behind_a_row_that_is_too_long_the_marks_are_right(length: int) -> None:
    content = b"a\n" + b"x" * length + b"\nb\nc\n"
    cut = cutter(content)
    rows = [rows for _ in range(4) if (rows := cut.take(1, 10)) is not None]
    assert [one.row(0)[:1] for one in rows] == [b"a", b"x", b"b", b"c"]
    assert [one.start.line for one in rows] == [1, 2, 3, 4]
    assert rows[1].longest_bytes > 1 << 20
    assert [one.start.offset for one in rows] == [0, 2, 3 + length, 5 + length]
    again = cutter(content, rows[2].start).take(9, 99)
    assert again is not None
    assert again.content == b"b\nc\n"


def test_a_file_without_a_line_end_is_one_row() -> None:
    cut = cutter(b"x" * (5 << 20))
    rows = cut.take(9, 9)
    assert rows is not None
    assert len(rows) == 1
    assert cut.take(9, 9) is None


def test_skipping_goes_on_where_taking_would() -> None:
    cut = cutter(b"".join(b"%d\n" % number for number in range(100)))
    cut.skip(42)
    rows = cut.take(1, 99)
    assert rows is not None
    assert (rows.content, rows.start.row, rows.start.line) == (b"42\n", 42, 43)


def group(row: int, rows: int) -> RowGroup:
    return RowGroup(rows=rows, size_bytes=rows, start=Mark(row=row, line=row + 1, offset=row))


def test_a_plan_keeps_the_marks_that_its_chunks_need_and_no_others() -> None:
    long = [group(row, 100) for row in range(0, 1000, 100)]
    files = [long, [group(0, 30)], [RowGroup(rows=500, size_bytes=500)]]
    chunks = plan_chunks(files, chunk_rows=250)
    marks = marks_for(files, chunks)
    assert [mark.row for mark in marks[0]] == [200, 400, 600, 800]
    assert marks[1:] == [(), ()]


def test_a_chunk_that_begins_within_a_group_reads_from_the_mark_before_it() -> None:
    files = [[group(0, 100), group(100, 100)]]
    (marks,) = marks_for(files, plan_chunks(files, chunk_rows=40))
    assert [mark.row for mark in marks] == [100]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a/rows.parquet", "parquet"),
        ("rows.JSONL", "jsonl"),
        ("rows.csv.gz", "csv"),
        ("rows.parquet.gz", None),
        ("rows.csv.zst", None),
        ("csv", None),
        ("rows", None),
    ],
)
def test_the_ending_of_a_name_tells_the_format(name: str, kind: str | None) -> None:
    assert format_of(name) == kind


def test_no_ending_means_two_formats() -> None:
    endings = [
        ending for kind in ("parquet", "arrow", "jsonl", "csv") for ending in endings_of(kind)
    ]
    assert len(endings) == len(set(endings))
