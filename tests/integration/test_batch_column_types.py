"""Whoever copies columns of text files may say what they are, and is told where that is no use."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import Place, new_place, publish_doubling, published_rows, run_job
from tidegate.errors import SettingError
from tidegate_batch.core.errors import InputInvalidError
from tidegate_batch.core.formats import parse_column_types


def place_with(folder: Path, name: str, content: str) -> Place:
    publish_doubling(str(folder / "store"), folder / "model")
    (folder / name).write_text(content)
    return Place(store=str(folder / "store"), input=str(folder / name), output=str(folder / "out"))


def test_a_copied_column_of_csv_is_text_unless_a_person_says_otherwise(tmp_path: Path) -> None:
    place = place_with(tmp_path, "rows.csv", "id,a,b,zip\n7,1,1,007\n8,2,2,\n")
    run_job(place, tmp_path / "cache", column_types=["id=integer"])
    found = published_rows(place.output)
    assert (found["id"].type, found["id"].to_pylist()) == (pa.int64(), [7, 8])
    assert found["zip"].to_pylist() == ["007", None]


def test_a_column_that_the_first_lines_lack_can_be_named(tmp_path: Path) -> None:
    lines = ['{"id": 1, "a": 1, "b": 1}\n'] * 1500 + ['{"id": 2, "a": 1, "b": 1, "late": 5}\n']
    place = place_with(tmp_path, "rows.jsonl", "".join(lines))
    with pytest.raises(InputInvalidError, match="expected text, as --column-type says, or --keep"):
        run_job(place, tmp_path / "cache", column_types=["late=number", "id=text"])
    run_job(place, tmp_path / "cache", column_types=["late=number"])
    found = published_rows(place.output)
    assert found["late"].to_pylist() == [None] * 1500 + [5.0]


def test_a_type_without_effect_is_an_error(tmp_path: Path) -> None:
    place = place_with(tmp_path, "rows.csv", "id,a,b,note\n7,1,1,x\n")
    with pytest.raises(InputInvalidError) as raised:
        run_job(place, tmp_path / "cache", column_types=["a=text", "note=text"], keep=["b"])
    message = str(raised.value)
    assert "column 'a': expected a column that is copied, found one that the model reads" in message
    assert "column 'note': expected a column that is copied, found one that is not" in message


def test_a_type_for_files_that_say_theirs_is_an_error(tmp_path: Path) -> None:
    place = new_place(tmp_path, 10)
    with pytest.raises(
        InputInvalidError, match="expected an input of JSON Lines or CSV, found none"
    ):
        run_job(place, tmp_path / "cache", column_types=["note=text"])
    assert pq.read_schema(f"{place.input}/rows-00.parquet").field("note").type == pa.string()


@pytest.mark.parametrize("text", ["id", "id=int64", "=text", "id=", "id=TEXT"])
def test_what_names_no_type_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="Write COLUMN=TYPE, with one of integer, number"):
        parse_column_types([text])


def test_a_column_has_one_type_and_its_name_may_hold_an_equals_sign() -> None:
    assert parse_column_types(["a=b=text", "a=b=text"]) == {"a=b": "text"}
    with pytest.raises(SettingError, match="cannot be both text and number"):
        parse_column_types(["a=text", "a=number"])
