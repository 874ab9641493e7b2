"""Where keys must be unique, every key that is not is named with its rows, before any is scored."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    new_place,
    parts_with,
    published_rows,
    run_job,
    table,
)
from tidegate.errors import SettingError
from tidegate_batch.core.errors import InputInvalidError
from tidegate_batch.pipeline.submission import submit


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, 30, 20)


def test_keys_that_stand_there_twice_are_named_with_their_rows(
    place: Place, tmp_path: Path
) -> None:
    pq.write_table(table([3, 100, 3, 47]), Path(place.input, "rows-02.parquet"))
    with pytest.raises(InputInvalidError) as raised:
        run_job(place, tmp_path / "cache", unique_key=True)
    message = str(raised.value)
    assert "2 problems with the input" in message
    assert "column 'id': expected one row with id=3, found 3 rows, the first is row 3 of" in message
    assert f"the last row 2 of {place.input}/rows-02.parquet" in message
    assert "expected one row with id=47, found 2 rows, the first is row 17 of" in message
    assert not list(Path(place.output).glob("**/*.attempt"))


def test_unique_keys_are_no_problem(place: Place, tmp_path: Path) -> None:
    run_job(place, tmp_path / "cache", unique_key=True)
    assert_each_row_once(place.output, 50)


def test_several_columns_may_name_a_row_together(place: Place, tmp_path: Path) -> None:
    for name, notes in (("rows-00", ["x", "y"]), ("rows-01", ["z", "y"])):
        rows = table([1, 1]).set_column(3, "note", pa.array(notes).dictionary_encode())
        pq.write_table(rows, Path(place.input, f"{name}.parquet"))
    with pytest.raises(
        InputInvalidError, match=r"'id and note': expected one row with id=1, note='y'"
    ):
        run_job(place, tmp_path / "cache", unique_key=True, key=["id", "note"])


def test_without_the_option_each_row_is_answered_whatever_its_key(
    place: Place, tmp_path: Path
) -> None:
    pq.write_table(table([3]), Path(place.input, "rows-02.parquet"))
    run_job(place, tmp_path / "cache")
    found = published_rows(place.output).sort_by("id")
    assert found["id"].to_pylist() == sorted([*range(50), 3])


def test_unique_keys_without_a_key_are_refused(place: Place) -> None:
    submission = place.submission(key=[], unique_key=True)
    with pytest.raises(SettingError, match="--unique-key means nothing without a --key"):
        submit(submission, store_url=place.store, parts=parts_with())
