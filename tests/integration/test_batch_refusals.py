"""What is wrong with a job is said before anything is spent: all of it, with file and column."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    publish_doubling,
    run_job,
    table,
)
from tidegate.errors import DigestMismatchError, ModelNotFoundError, SettingError
from tidegate.ids import ModelRef
from tidegate_batch.core.errors import InputInvalidError, JobConflictError, Problem
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, 30, 20)


def refusal(place: Place, **changes: object) -> str:
    """Return what a job is refused with; nothing was scored then."""
    with pytest.raises(InputInvalidError) as raised:
        run_job(place, Path(place.store) / "cache", **changes)
    assert list(Path(place.output).glob("**/*.attempt")) == []
    return str(raised.value)


def write(place: Place, name: str, rows: pa.Table) -> None:
    pq.write_table(rows, f"{place.input}/{name}")


def test_every_problem_of_every_file_is_listed_at_once(place: Place) -> None:
    rows = table(range(3))
    write(place, "rows-01.parquet", rows.drop(["a"]))
    write(place, "rows-02.parquet", rows.set_column(1, "a", pa.array(["x", "y", "z"])))
    write(place, "rows-03.parquet", rows.set_column(0, "id", pa.array([1.5, 2.5, 3.5])))
    write(place, "rows-04.parquet", rows.append_column("extra", pa.array([1, 2, 3])))
    Path(place.input, "rows-05.parquet").write_bytes(b"this is no parquet file")
    message = refusal(place)
    folder = re.escape(place.input)
    for line in (
        "5 problems with the input, nothing was scored:",
        rf"{folder}/rows-01\.parquet: column 'a': expected numbers, found no such column",
        rf"{folder}/rows-02\.parquet: column 'a': expected numbers, found string",
        rf"{folder}/rows-03\.parquet: column 'id': expected int64 as in .*, found double",
        rf"{folder}/rows-04\.parquet: column 'extra': expected no such column, .* found int64",
        rf"{folder}/rows-05\.parquet: expected a Parquet file, found .*cannot be read as Parquet",
    ):
        assert re.search(line, message), line
    assert message.count("rows-05.parquet") == 1
    assert ".." not in message


def test_missing_values_without_a_default_are_counted(place: Place) -> None:
    rows = table(range(3))
    write(place, "rows-01.parquet", rows.set_column(1, "a", pa.array([None, 2.0, None])))
    assert "expected numbers, found 2 missing values, and the column has no default" in refusal(
        place
    )


def test_a_key_or_kept_column_that_is_not_there_is_named_with_its_option(place: Place) -> None:
    message = refusal(place, key=["idd"], keep=["nott"])
    assert "column 'idd': expected it, for --key, found no such column" in message
    assert "column 'nott': expected it, for --keep, found no such column" in message


def test_a_kept_column_that_the_output_adds_itself_is_refused(place: Place) -> None:
    rows = table(range(3)).rename_columns(["id", "a", "b", "prediction"])
    for name in ("rows-00.parquet", "rows-01.parquet"):
        write(place, name, rows)
    assert "column 'prediction': expected another name, or --keep without it" in refusal(place)


def test_a_pattern_that_means_nothing_is_named(place: Place) -> None:
    message = refusal(place, inputs=[f"{place.input}/*.csv", place.input])
    assert "*.csv: expected at least one file of rows, found none" in message


@pytest.mark.parametrize(
    ("pattern", "output", "is_refused"),
    [
        ("", "scores/day", True),
        ("/**/*.parquet", "scores", True),
        ("/*.parquet", "scores", False),
        ("", "_scores", False),
    ],
)
def test_an_output_that_the_next_night_would_score_is_refused(
    place: Place, tmp_path: Path, pattern: str, output: str, is_refused: bool
) -> None:
    inside = {"inputs": [f"{place.input}{pattern}"], "output": f"{place.input}/{output}"}
    if is_refused:
        assert "expected inputs without the output in them" in refusal(place, **inside)
    else:
        run_job(place, tmp_path / "cache", **inside)


def test_a_link_that_leads_out_of_the_input_is_a_problem_of_the_input(
    place: Place, tmp_path: Path
) -> None:
    pq.write_table(table(range(3)), tmp_path / "outside.parquet")
    link = Path(place.input, "linked.parquet")
    link.symlink_to(tmp_path / "outside.parquet")
    assert f"{link} leads out of {place.input} through a symbolic link" in refusal(place)


@pytest.mark.parametrize("below", ["", "/below"])
def test_an_output_that_is_a_file_is_named(place: Place, tmp_path: Path, below: str) -> None:
    file = tmp_path / "base.csv"
    file.write_text("a,b")
    with pytest.raises(SettingError, match=f"--output {file}{below} .*: {file} is a file"):
        run_job(place, tmp_path / "cache", output=f"{file}{below}")


def test_an_output_that_holds_the_inputs_is_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"already holds|inputs outside of the output"):
        run_job(place, tmp_path / "cache", output=place.input)


def test_a_model_that_is_not_there_leaves_no_job(place: Place) -> None:
    with pytest.raises(ModelNotFoundError, match=r"double has the versions \[1\]"):
        run_job(place, Path(), model=ModelRef.parse("double@9"))
    assert not Path(place.store, "jobs").exists()


def test_a_moving_alias_never_moves_under_a_job(place: Place, tmp_path: Path) -> None:
    parts = parts_with()
    record = submit(place.submission(), store_url=place.store, parts=parts)
    publish_doubling(place.store, tmp_path / "model")
    assert drive(record, parts, tmp_path / "cache").manifest.model.version == 1


def test_another_version_under_the_pinned_number_is_refused(place: Place, tmp_path: Path) -> None:
    parts = parts_with()
    record = submit(place.submission(), store_url=place.store, parts=parts)
    manifest = Path(place.store, "models/double/1/manifest.json")
    manifest.write_bytes(manifest.read_bytes().replace(b'"model.onnx"', b'"model.onnx" ', 1))
    with pytest.raises(DigestMismatchError, match=r"expected sha256:.*found sha256:"):
        drive(record, parts, tmp_path / "cache")


@pytest.mark.field_fault("B-38")
def test_the_same_token_finds_the_same_job_and_never_runs_it_twice(
    place: Place, tmp_path: Path
) -> None:
    first = run_job(place, tmp_path / "cache", client_token="nightly")
    parts = parts_with()
    again = submit(place.submission(client_token="nightly"), store_url=place.store, parts=parts)
    assert first.job == again.job == job_id_of_token("nightly")
    assert [path.name for path in Path(place.store, "jobs").iterdir()] == [first.job]
    assert_each_row_once(place.output, 50)


def test_the_same_token_with_another_request_is_a_conflict(place: Place) -> None:
    parts = parts_with()
    submit(place.submission(client_token="nightly"), store_url=place.store, parts=parts)
    with pytest.raises(JobConflictError, match=r"chunk_rows 20000, not 5"):
        submit(
            place.submission(client_token="nightly", chunk_rows=5),
            store_url=place.store,
            parts=parts,
        )


def test_a_refused_job_is_recorded_as_failed_and_why(place: Place) -> None:
    refusal(place, key=["idd"], client_token="t")
    state = JobRecord(parts_with().stores(place.store), job_id_of_token("t")).state()
    assert state is not None
    assert state.state is State.FAILED
    assert state.failure is not None
    assert state.failure.code == "input_invalid"
    assert "'idd'" in state.failure.message


def test_after_a_refusal_the_same_output_can_be_used(place: Place, tmp_path: Path) -> None:
    refusal(place, key=["idd"])
    run_job(place, tmp_path / "cache")
    assert_each_row_once(place.output, 50)


def test_ten_thousand_wrong_files_do_not_fill_the_terminal() -> None:
    problems = [
        Problem(where=f"{number}.parquet", column="a", expected="numbers", found="text")
        for number in range(10_000)
    ]
    error = InputInvalidError.of_problems(problems)
    lines = str(error).splitlines()
    assert lines[0] == "10000 problems with the input, nothing was scored:"
    assert lines[-1] == "  … and 9950 more"
    assert len(lines) == 52
    assert len(error.problems) == 10_000
