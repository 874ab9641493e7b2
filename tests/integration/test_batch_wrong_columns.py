"""Files that are not what was asked for: told in a few words that say what to change."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.bad_rows import publish_ratios
from tests.fixtures.batch_jobs import Place, parts_with, table
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import InputInvalidError
from tidegate_batch.pipeline.planning import make_plan
from tidegate_batch.pipeline.submission import spec_of

HEADER = b"id,a,b\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    publish_ratios(str(tmp_path / "store"), tmp_path / "model")
    (tmp_path / "in").mkdir()
    store, output = str(tmp_path / "store"), str(tmp_path / "out")
    return Place(store=store, input=str(tmp_path / "in"), output=output)


def refusal(place: Place, name: str, content: bytes, **changes: object) -> str:
    """Return what a job over one file is refused with."""
    if content:
        Path(place.input, name).write_bytes(content)
    submission = place.submission(inputs=[f"{place.input}/{name}"], **changes)
    parts = parts_with()
    asked = spec_of(submission, store=open_store(place.store), parts=parts)
    with pytest.raises(InputInvalidError) as raised:
        make_plan(asked, parts=parts, store_url=place.store)
    return str(raised.value)


def test_a_file_whose_lines_end_with_carriage_returns_is_told_in_a_few_words(place: Place) -> None:
    told = refusal(place, "rows.csv", HEADER.replace(b"\n", b"\r") + b"1,2,3\r" * 5000)
    assert "its lines end with carriage returns alone; write line feeds" in told
    assert len(told) < 500


def test_of_thousands_of_columns_that_stand_there_twice_a_few_are_named(place: Place) -> None:
    told = refusal(place, "rows.csv", b"a,b," + b",".join([b"%d" % n for n in range(3000)] * 2))
    assert "expected each column once, found '0', '1', '2', '3', '4' and 2995 more twice" in told


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"id;a;b\n1;2;3\n", "'id;a;b'"),
        (b"1,0.5,3\n2,0.5,3\n", "'1', '0.5', '3'"),
        (b"ID,A,B\n1,2,3\n", "'ID', 'A', 'B'"),
        (b'{"a": 1, "b": 2}\n', """'{"a": 1', ' "b": 2}'"""),
    ],
)
def test_a_file_without_any_column_of_the_model_is_told_once_and_with_those_it_has(
    place: Place, content: bytes, found: str
) -> None:
    told = refusal(place, "rows.csv", content, key=[])
    (line,) = told.splitlines()[1:]
    assert f"rows.csv: expected the columns 'a', 'b', found none of them, but {found}; the" in line
    assert line.endswith("the first line must name the columns, with commas between them")


def test_a_column_that_is_missing_alone_is_told_with_those_that_may_be_it(place: Place) -> None:
    told = refusal(place, "rows.csv", b"id,A,b\n1,2,3\n")
    assert "column 'a': expected numbers, found no such column, but 'id', 'A'" in told


def test_a_file_that_is_not_there_is_not_called_an_empty_folder(place: Place) -> None:
    told = refusal(place, "gone.csv", b"")
    assert "gone.csv: expected at least one file of rows, found no such file" in told


def test_what_to_write_instead_of_a_type_that_a_model_cannot_read_is_told(place: Place) -> None:
    values = pa.array([Decimal("1.50")], type=pa.decimal128(10, 2))
    pq.write_table(table([1]).set_column(1, "a", values), f"{place.input}/rows.parquet")
    told = refusal(place, "rows.parquet", b"")
    assert "expected numbers, found decimal128(10, 2); write it as double" in told
