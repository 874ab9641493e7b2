"""Jobs over text files: each row is answered or told of, whatever stops the job meanwhile."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from tests.fixtures.bad_rows import dead_letters_of, publish_ratios
from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    inline_engine,
    parts_with,
    publish_doubling,
    table,
)
from tidegate.cli.exits import ExitCode
from tidegate.errors import JobError
from tidegate_batch.core.errors import JobConflictError, TooManyBadRowsError
from tidegate_batch.main import batch
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit

MALFORMED = [b"{", b'{"id": 1}}', b"", b"null", b'{"a": "\xff"}', b'{"id": 1, "id": 2}', b"[1, 2]"]
WRONG = [b'{"id": 1, "a": "1"}', b'{"id": 1, "a": true, "b": 1}', b'{"id": "x", "a": 1, "b": 1}']
RAISES = b'{"id": 1, "a": 1000000, "b": 1}'


def place_of(folder: Path) -> Place:
    return Place(
        store=str(folder / "store"), input=str(folder / "rows.jsonl"), output=str(folder / "out")
    )


def submitted(place: Place, *options: str) -> Result:
    arguments = ["--store", place.store, "--model", "double@stable", "--input", place.input]
    arguments += ["--output", place.output, "--engine", "local", "--workers", "1", "--wait"]
    return CliRunner().invoke(
        batch, ["submit", *arguments, "--json", *options], standalone_mode=False
    )


@pytest.fixture
def twelve_bad_rows(tmp_path: Path) -> Place:
    """Write a thousand lines: 7 are malformed, 3 hold a wrong type, for 2 the model raises."""
    publish_ratios(str(tmp_path / "store"), tmp_path / "model")
    lines = [b'{"id": %d, "a": %d, "b": 1}' % (row, row) for row in range(1000)]
    for place, line in enumerate([*MALFORMED, *WRONG, RAISES, RAISES]):
        lines[50 + 60 * place] = line
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    return place_of(tmp_path)


def test_of_a_thousand_rows_twelve_bad_ones_are_told_and_988_answered(
    twelve_bad_rows: Place,
) -> None:
    answer = submitted(twelve_bad_rows, "--max-bad-rows", "2%", "--format", "jsonl")
    assert answer.return_value == ExitCode.DEAD_LETTERS
    told = json.loads(answer.stdout)
    assert (told["rows"], told["rows_dlq"]) == (1000, 12)
    letters = dead_letters_of(twelve_bad_rows, told["job"])
    assert letters["_line"].to_pylist() == [51 + 60 * place for place in range(12)]
    codes = letters["_error_code"].to_pylist()
    assert codes[:7] == ["malformed_row"] * 7
    assert codes[7:10] == ["wrong_type"] * 3
    assert letters["_text"].to_pylist()[0] == "{"
    assert letters["id"].to_pylist() == [None] * 7 + [1, 1, None, 1, 1], "but for the blamed ones"
    assert letters["a"].to_pylist()[7:10] == [None, None, 1.0]
    assert letters["_was_read"].to_pylist() == [False] * 10 + [True] * 2
    parts = sorted(Path(twelve_bad_rows.output).glob("part-*.jsonl"))
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert len(rows) == len({row["id"] for row in rows}) == 988
    assert all(row["prediction"] in (row["id"], [row["id"]]) for row in rows)


def test_the_same_rows_fail_the_job_at_the_limit_that_holds_without_an_option(
    twelve_bad_rows: Place,
) -> None:
    answer = submitted(twelve_bad_rows)
    assert isinstance(answer.exception, TooManyBadRowsError)
    assert "malformed_row" in str(answer.exception)
    assert not Path(twelve_bad_rows.output, "_SUCCESS").exists()


def stopped(place: Place, cache: Path) -> JobRecord:
    """Leave a job that committed two chunks of ten rows and was interrupted."""
    parts = parts_with()
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    with pytest.raises(KeyboardInterrupt):
        drive(record, parts, cache, engine=inline_engine(parts, {2: KeyboardInterrupt()}))
    return record


@pytest.fixture
def fifty(tmp_path: Path) -> Place:
    publish_doubling(str(tmp_path / "store"), tmp_path / "model")
    lines = [json.dumps(row) for row in table(range(50)).to_pylist()]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return place_of(tmp_path)


def test_a_job_goes_on_where_it_stopped_within_a_text_file(fifty: Place, tmp_path: Path) -> None:
    record = stopped(fifty, tmp_path / "cache")
    finished = drive(record, parts_with(), tmp_path / "cache")
    assert finished.rows_scored == 30
    assert_each_row_once(fifty.output, 50)


def test_a_job_never_goes_on_over_a_text_file_that_changed(fifty: Place, tmp_path: Path) -> None:
    record = stopped(fifty, tmp_path / "cache")
    with Path(fifty.input).open("ab") as file:
        file.write(b"\n{}")
    with pytest.raises(JobConflictError, match="changed or went away"):
        drive(record, parts_with(), tmp_path / "cache")


def test_a_file_whose_first_rows_promise_too_much_is_told_by_file_and_row(
    fifty: Place, tmp_path: Path
) -> None:
    parts = parts_with()
    record = submit(fifty.submission(), store_url=fifty.store, parts=parts)
    drive(record, parts, tmp_path / "cache")
    plan = record.plan()
    assert plan is not None
    columns = pa.schema([pa.field("id", pa.int64())])
    reading = parts.source.read(
        plan.inputs[0], first_row=40, rows=20, columns=columns, batch_rows=50
    )
    with pytest.raises(
        JobError, match=r"rows\.jsonl, rows 50 to 59 cannot be read.*ends before row 50"
    ):
        list(reading)
