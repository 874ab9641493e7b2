"""JSON Lines: exact values, and every malformed line told by its number."""

import gzip
import io
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pytest

from tests.fixtures import row_files
from tests.fixtures.row_files import found_at, groups_of, planned, read
from tidegate.errors import JobError
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectChangedError, StoreUnavailableError
from tidegate_batch.sources.files import FileSource

_COLUMNS: list["pa.Field[Any]"] = [
    pa.field("n", pa.int64(), nullable=False),
    pa.field("x", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("v", pa.list_(pa.field("element", pa.float64()))),
]
COLUMNS = pa.schema(_COLUMNS)
GOOD = b'{"n": 1, "x": 0.5, "s": "a", "v": [1, 2.5]}'


@pytest.fixture
def source() -> Iterator[FileSource]:
    with closing(FileSource(open_store)) as opened:
        yield opened


def rows_of(
    tmp_path: Path, content: bytes, columns: pa.Schema = COLUMNS
) -> tuple[list[dict[str, object]], dict[int, tuple[str, str]]]:
    return row_files.rows_of(tmp_path / "rows.jsonl", content, columns)


def test_values_are_exact_to_the_edges_of_their_types(tmp_path: Path) -> None:
    rows = [
        {"n": 2**63 - 1, "x": 0.1, "s": "é\u0000\n\U0001f600", "v": [1e308, -0.0]},
        {"n": -(2**63), "x": 5, "s": "", "v": []},
        {"n": 0, "x": None, "s": "2024-01-01T00:00:00", "v": None},
    ]
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    good, bad = rows_of(tmp_path, lines)
    assert (good, bad) == (rows, {})


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b'{"n": 1', "malformed_row", "no JSON"),
        (b"[1]", "malformed_row", "expected a JSON object, found a list"),
        (b"5", "malformed_row", "expected a JSON object, found the number 5"),
        (b"", "malformed_row", "the line is empty"),
        (b'{"n": 1} {"n": 2}', "malformed_row", "no JSON: Extra data"),
        (b'{"n": 1}{"n": 2}', "malformed_row", "no JSON: Extra data"),
        (b'{"n": 1, "n": 2}', "malformed_row", "twice"),
        (b'{"n": 1, "s": "\xff"}', "malformed_row", "not UTF-8: byte 15 of the row is 0xff"),
        (b'{"n": 1, "other": "\xff"}', "malformed_row", "not UTF-8"),
        (b'{"n": 1, "s": "a\tb"}', "malformed_row", "no JSON: Invalid control character"),
        (b'{"n": "1"}', "wrong_type", "column 'n': expected an integer (int64), found the string"),
        (b'{"n": 1.0}', "wrong_type", "column 'n': expected an integer (int64), found the number"),
        (b'{"n": 9223372036854775808}', "wrong_type", "the number 9223372036854775808"),
        (b'{"n": true}', "wrong_type", "found true"),
        (b'{"n": 1' + b"0" * 5000 + b"}", "wrong_type", "column 'n': expected an integer"),
        (b'{"n": 1, "x": ' + b"[" * 9000 + b"]" * 9000 + b"}", "malformed_row", "nested too deep"),
        (b'{"n": 1, "x": 1' + b"0" * 5000 + b"}", "wrong_type", "column 'x': expected a number"),
        (b'{"n": null}', "missing_value", "column 'n' has no value"),
        (b'{"x": 1}', "missing_value", "column 'n' has no value"),
        (b'{"n": 1, "x": "0.5"}', "wrong_type", "column 'x': expected a number"),
        (
            b'{"n": 1, "x": NaN}',
            "wrong_type",
            "column 'x': expected a number, found the number nan",
        ),
        (b'{"n": 1, "x": 1e400}', "wrong_type", "column 'x': expected a number"),
        (b'{"n": 1, "s": 5}', "wrong_type", "column 's': expected a string, found the number 5"),
        (b'{"n": 1, "s": {"a": 1}}', "wrong_type", "expected a string, found an object"),
        (b'{"n": 1, "v": [1, "2"]}', "wrong_type", "a list, each item a number, found a list"),
        (b'{"n": 1, "v": 5}', "wrong_type", "column 'v': expected a list"),
    ],
)
def test_a_malformed_line_is_told_by_its_number_and_the_others_are_read(
    tmp_path: Path, line: bytes, code: str, message: str
) -> None:
    good, bad = rows_of(tmp_path, b"\n".join([GOOD, GOOD, line, GOOD]))
    assert len(good) == 3
    assert list(bad) == [3]
    assert bad[3][0] == code
    assert message in bad[3][1]


def test_what_becomes_of_a_line_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    lines = [GOOD, b"{", b' {"n": 2} ', b'\t{"n":3}\r', b"}{", b'{"n": 4}', b'{"n": {}', b',"x":1}']
    _, together = rows_of(tmp_path, b"\n".join(lines))
    alone = {n for n, line in enumerate(lines, 1) if rows_of(tmp_path, GOOD + b"\n" + line)[1]}
    assert set(together) == alone == {2, 5, 7, 8}


def test_two_values_in_one_line_never_make_up_for_a_line_with_none(tmp_path: Path) -> None:
    good, bad = rows_of(tmp_path, b'{"n": 1}{"n": 2}\n\n{"n": 3}\n')
    assert [row["n"] for row in good] == [3]
    assert sorted(bad) == [1, 2]


def test_blank_lines_after_the_last_row_are_none(tmp_path: Path) -> None:
    good, bad = rows_of(tmp_path, b'{"n": 1}\n\n{"n": 2}\n' + b" \n\r\n" * 3000)
    assert [row["n"] for row in good] == [1, 2]
    assert list(bad) == [2]


def test_a_byte_order_mark_and_windows_line_ends_are_passed_over(tmp_path: Path) -> None:
    good, bad = rows_of(tmp_path, b'\xef\xbb\xbf{"n": 1}\r\n{"n": 2}\r\n')
    assert ([row["n"] for row in good], bad) == ([1, 2], {})


def test_the_text_of_a_bad_line_is_kept_without_its_end(tmp_path: Path, source: FileSource) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"n": 1}\n{"n": oops\xff}\r\n{"n": 3}\n')
    _, (bad,) = read(source, planned(found_at(file)), COLUMNS)
    assert (bad.line.number, bad.line.text, bad.row) == (2, '{"n": oops\ufffd}', 1)


def test_the_line_of_a_good_row_can_be_asked_for(tmp_path: Path, source: FileSource) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"n": 1}\n{\n{"n": 3}\n{"n": 4}\n')
    plan = planned(found_at(file))
    (part,) = source.read(plan, first_row=0, rows=4, columns=COLUMNS, batch_rows=9)
    assert part.line is not None
    assert [part.line(place).number for place in range(3)] == [1, 3, 4]
    assert part.line(1).text == '{"n": 3}'


@pytest.mark.field_fault("B-25")
def test_one_row_of_fifty_megabytes_is_a_row_like_any_other(tmp_path: Path) -> None:
    text = b"x" * (50 << 20)
    good, bad = rows_of(tmp_path, GOOD + b'\n{"n": 2, "s": "' + text + b'"}\n' + GOOD)
    assert bad == {}
    assert [len(str(row["s"])) for row in good] == [1, 50 << 20, 1]


def test_a_line_beyond_the_limit_is_a_bad_row_and_reading_goes_on_behind_it(tmp_path: Path) -> None:
    good, bad = rows_of(tmp_path, GOOD + b'\n{"s": "' + b"x" * (65 << 20) + b'"}\n' + GOOD)
    assert len(good) == 2
    assert bad == {2: ("malformed_row", "the row is longer than 64 MiB")}


def numbered(count: int, width: int = 0) -> bytes:
    return b"".join(b'{"n": %d, "s": "%s"}\n' % (n, b"y" * width) for n in range(count))


@pytest.fixture(params=["plain", "packed"])
def many(request: pytest.FixtureRequest, store_url: str) -> tuple[str, int]:
    """Store 25,000 lines on each kind of store, plain and packed."""
    content, name = numbered(25_000), "rows.jsonl"
    if request.param == "packed":
        content, name = gzip.compress(content), "rows.jsonl.gz"
    open_store(store_url).put_if_absent(name, content)
    return f"{store_url}/{name}", 25_000


def test_any_range_is_read_by_a_seek_whole_and_in_order(
    many: tuple[str, int], source: FileSource
) -> None:
    url, count = many
    plan = planned(found_at(url), chunk_rows=3000)
    assert plan.rows == count
    assert [mark.row for mark in plan.marks] == list(range(3000, count, 3000))
    assert plan.marks[0].line == 3001
    columns = pa.schema([pa.field("n", pa.int64())])
    for first, rows in [(0, 10), (10, 5), (24_999, 1), (2999, 2), (7123, 4000), (3, 1)]:
        good, bad = read(source, plan, columns, first_row=first, rows=rows, batch_rows=700)
        assert [row["n"] for row in good] == list(range(first, first + rows))
        assert bad == []


def test_batches_are_cut_alike_whoever_reads_from_where(tmp_path: Path, source: FileSource) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(numbered(9000, width=2000))  # 18 MB: bytes, not rows, end a batch

    def cuts(reading: FileSource) -> list[int]:
        parts = reading.read(plan, first_row=4000, rows=5000, columns=columns, batch_rows=9000)
        return [part.batch.num_rows for part in parts]

    plan = planned(found_at(file), chunk_rows=1000)
    columns = pa.schema([pa.field("n", pa.int64())])
    assert list(source.read(plan, first_row=0, rows=4000, columns=columns, batch_rows=999))
    went_on = cuts(source)
    source.close()
    assert cuts(source) == went_on
    assert len(went_on) == 2


def test_counting_holds_a_few_blocks_in_memory_however_large_the_file_is(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(numbered(60_000, width=1000))  # 60 MB
    found = found_at(file)
    tracemalloc.start()
    assert sum(group.rows for group in groups_of(found)) == 60_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20


def test_reading_holds_a_batch_in_memory_however_large_the_file_is(
    tmp_path: Path, source: FileSource
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(numbered(60_000, width=1000))  # 60 MB
    plan = planned(found_at(file))
    columns = pa.schema([pa.field("s", pa.string())])
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    tracemalloc.start()
    for part in source.read(plan, first_row=0, rows=60_000, columns=columns, batch_rows=4096):
        most = max(most, pool.bytes_allocated() - before + part.batch.nbytes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + most < 32 << 20


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, source: FileSource
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(numbered(100))
    plan = planned(found_at(file))
    reading = source.read(plan, first_row=0, rows=100, columns=COLUMNS, batch_rows=10)
    next(reading)
    file.write_bytes(numbered(99))
    with pytest.raises(ObjectChangedError):
        list(reading)


class Faltering(io.FileIO):
    """Loses the block that it has read when it fails, once."""

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size) or b""
        if self.tell() > 2 << 20 and not Faltering.has_failed:
            Faltering.has_failed = True
            raise StoreUnavailableError("the network is gone")
        return content

    has_failed = False


class FalteringStore(LocalObjectStore):
    def open(self, key: str, *, etag: str) -> BinaryIO:
        with super().open(key, etag=etag) as file:
            return cast("BinaryIO", Faltering(file.name))


def test_a_read_that_failed_for_want_of_the_store_is_repeated_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(numbered(4000, width=1000))
    plan = planned(found_at(file))
    columns = pa.schema([pa.field("n", pa.int64())])
    with closing(FileSource(lambda _: FalteringStore(tmp_path))) as source:
        with pytest.raises(StoreUnavailableError):
            read(source, plan, columns, rows=4000)
        good, bad = read(source, plan, columns, rows=4000)
    assert [row["n"] for row in good] == list(range(4000))
    assert bad == []


def test_a_packed_file_that_is_cut_short_is_refused_when_it_is_counted(
    tmp_path: Path, source: FileSource
) -> None:
    file = tmp_path / "rows.jsonl.gz"
    file.write_bytes(gzip.compress(numbered(50_000))[:-20])
    with pytest.raises(JobError, match=r"rows\.jsonl\.gz cannot be read as JSON Lines: .*ended"):
        source.index(found_at(file))


@pytest.mark.parametrize("content", [b'[\n{"n": 1},\n{"n": 2}\n]\n', b' [{"n": 1}, {"n": 2}]\n'])
def test_a_json_array_is_refused_before_anything_is_counted(
    tmp_path: Path, source: FileSource, content: bytes
) -> None:
    (tmp_path / "rows.json").write_bytes(content)
    with pytest.raises(JobError, match="cannot be read as JSON Lines: it is one JSON array"):
        source.describe(found_at(tmp_path / "rows.json"), wanted=COLUMNS)


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n"])
def test_a_file_without_rows_has_every_column(
    tmp_path: Path, source: FileSource, content: bytes
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(content)
    shape = source.describe(found_at(tmp_path / "rows.jsonl"), wanted=COLUMNS)
    assert (shape.schema.names, shape.row_groups) == (COLUMNS.names, ())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "9223372036854775807"], pa.int64()),
        (["18446744073709551615", "1"], pa.uint64()),
        ([*map(str, range(2**53, 2**53 + 20)), "0.5"], pa.int64()),
        ([*map(str, range(20)), "13.0"], pa.int64()),
        ([*map(str, range(20)), str(2**70)], pa.int64()),
        ([str(2**64 - 1)] * 20 + ["-1"], pa.uint64()),
        ([*["0.5"] * 20, str(2**70)], pa.float64()),
        (["[1, 2.0]"], pa.list_(pa.field("element", pa.float64()))),
        (["1", "2.5", "null"], pa.float64()),
        (["true", "false"], pa.bool_()),
        (['"2024-01-01"'], pa.string()),
        (["null"], pa.string()),
        (["[1, 2]", "[]"], pa.list_(pa.field("element", pa.int64()))),
    ],
)
def test_a_copied_column_has_the_type_of_its_first_values(
    tmp_path: Path, values: list[str], kind: pa.DataType, source: FileSource
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"c": {value}}}\n' for value in values))
    shape = source.describe(found_at(file), wanted=pa.schema([]))
    assert shape.schema.field("c").type == kind
    assert not shape.unreadable


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (['{"a": 1}'], "an object"),
        (["1", '"x"'], "the number 1 beside the string 'x'"),
        ([str(2**53 + 1), "0.5"], f"the number {2**53 + 1} beside the number 0.5"),
    ],
)
def test_a_copied_column_without_a_type_is_told(
    tmp_path: Path, values: list[str], told: str, source: FileSource
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"c": {value}}}\n' for value in values))
    assert source.describe(found_at(file), wanted=pa.schema([])).unreadable == {"c": told}
