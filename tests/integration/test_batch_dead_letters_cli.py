"""Rows that fail, as a data team meets them: exit codes, tables, files, and a second try."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fixtures.bad_rows import answers_by_id, publish_ratios, ratio_place, write_rows_with
from tests.fixtures.batch_jobs import Place
from tidegate.cli import run
from tidegate_batch.core.names import job_id_of_token

TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)
UNKNOWN = (1e6, 1.0)
MALFORMED = {20, 21, 22, 400, 401, 998, 999}
MISTYPED = {30, 31, 500}
RAISING = {40, 600}


@pytest.fixture(autouse=True)
def caches_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))


def submit(place: Place, *options: str) -> int:
    return run(
        [
            *("batch", "submit", "--model", "double@stable", "--input", place.input),
            *("--output", place.output, "--key", "id", "--store", place.store, "--wait"),
            *("--client-token", TOKEN, "--engine", "local", "--workers", "1", *options),
        ]
    )


def on(place: Place, command: str, *options: str) -> int:
    return run(["batch", command, JOB, "--store", place.store, *options])


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def lines_place(folder: Path) -> Place:
    """Write 1,000 lines: 7 malformed, 3 of a wrong type, 2 that the model cannot bear."""
    publish_ratios(str(folder / "store"), folder / "model")
    lines = []
    for row in range(1000):
        a: object = "many" if row in MISTYPED else 1e6 if row in RAISING else row
        line = json.dumps({"id": row, "a": a, "b": 1.0})
        lines.append(line[:-3] if row in MALFORMED else line)
    file = folder / "in/rows.jsonl"
    file.parent.mkdir()
    file.write_text("\n".join(lines) + "\n")
    return Place(store=str(folder / "store"), input=str(folder / "in"), output=str(folder / "out"))


@pytest.mark.field_fault("B-19", "B-21")
def test_of_1000_lines_12_are_dead_letters_each_with_its_reason_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = lines_place(tmp_path)
    assert submit(place, "--max-bad-rows", "2%", "--json") == 3
    done = answer(capsys)
    assert (done["state"], done["rows"], done["rows_dlq"]) == ("published", 1000, 12)
    bad = MALFORMED | MISTYPED | RAISING
    assert answers_by_id(place.output) == {row: float(row) for row in range(1000) if row not in bad}

    assert on(place, "status") == 3
    assert "988 rows in 1 part and 12 dead letters" in capsys.readouterr().out
    assert on(place, "verify") == 0
    assert "988 rows in 1 part and 12 dead letters, each row once" in capsys.readouterr().out
    assert on(place, "dead-letters", "--rows", "12", "--json") == 0
    told = answer(capsys)
    assert told["rows"] == 12
    expected = {row + 1: "malformed_row" for row in MALFORMED}
    expected |= {row + 1: "wrong_type" for row in MISTYPED}
    expected |= {row + 1: "model_failed" for row in RAISING}
    assert {one["line"]: one["code"] for one in told["first"]} == expected
    assert {one["source"] for one in told["first"]} == {f"{place.input}/rows.jsonl"}
    counts = {reason["code"]: reason["rows"] for reason in told["reasons"]}
    assert counts == {"malformed_row": 7, "wrong_type": 3, "model_failed": 2}


def test_at_the_default_limit_the_same_job_fails_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = lines_place(tmp_path)
    assert submit(place) == 1
    message = capsys.readouterr().err
    assert "12 of the 1000 rows seen so far cannot be scored" in message
    assert "more than --max-bad-rows 1% allows: malformed_row 7, " in message
    assert "(code: too_many_bad_rows)" in message
    assert "resume" not in message, "it would only find the same rows"
    assert not list(Path(place.output).glob("part-*"))
    assert on(place, "status") == 1
    assert on(place, "resume", "--wait", "--engine", "local") == 1
    capsys.readouterr()
    assert on(place, "dead-letters") == 0, "which these are can be seen all the same"
    assert "job " + JOB + " has 12 dead letters" in capsys.readouterr().out


def test_the_table_names_each_reason_with_its_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 1000, {7: UNKNOWN, 8: (1.0, 0.0), 9: UNKNOWN})
    assert submit(place) == 3
    assert "See which rows have no answer: tidegate batch dead-letters" in capsys.readouterr().out
    assert on(place, "dead-letters", "--rows", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"job {JOB} has 3 dead letters"
    assert lines[2].split() == ["reason", "rows", "the", "first", "why"]
    assert lines[3].split()[:2] == ["model_failed", "2"]
    assert f"{place.input}/rows.parquet, row 7  the model raised" in lines[3]
    assert lines[4].split()[:2] == ["non_finite_output", "1"]
    assert [line.split()[-2:] for line in lines[7:9]] == [
        ["7", "model_failed"],
        ["8", "non_finite_output"],
    ]
    assert lines[-1] == "… and 1 more"


def test_a_job_without_dead_letters_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 20)
    assert on(place, "dead-letters") == 1
    assert "no job" in capsys.readouterr().err
    assert submit(place) == 0
    capsys.readouterr()
    assert on(place, "dead-letters") == 0
    assert capsys.readouterr().out == f"job {JOB} has no dead letters\n"
    assert on(place, "retry-dlq", "--output", f"{place.output}-again") == 1
    assert "there is nothing to try again" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_all_dead_letters_can_be_fetched_as_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    place = ratio_place(tmp_path, 1000, dict.fromkeys((7, 300, 900), UNKNOWN))
    assert submit(place, "--chunk-rows", "250") == 3
    file = tmp_path / f"bad.{ending}"
    assert on(place, "dead-letters", "--out", str(file)) == 0
    assert f"all of them are in {file}" in capsys.readouterr().out
    if ending == "parquet":
        rows = pq.read_table(file).to_pylist()
    else:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["id"], row["note"], row["_error_code"]) for row in rows] == [
        (row, f"row {row}", "model_failed") for row in (7, 300, 900)
    ]
    assert [path.name for path in tmp_path.glob(".bad*")] == []


def test_a_file_that_cannot_be_written_is_a_usage_error_and_leaves_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 100, {7: UNKNOWN})
    assert submit(place) == 3
    assert on(place, "dead-letters", "--out", str(tmp_path / "bad.csv")) == 2
    assert "neither .parquet nor .jsonl" in capsys.readouterr().err
    assert on(place, "dead-letters", "--out", str(tmp_path / "no/bad.jsonl")) == 2
    assert "--out cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["some", "101%", "-1"])
def test_a_limit_that_cannot_be_meant_is_refused_before_there_is_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    place = ratio_place(tmp_path, 10)
    assert submit(place, "--max-bad-rows", limit) == 2
    assert "--max-bad-rows" in capsys.readouterr().err
    assert not Path(place.store, "jobs").exists()


@pytest.mark.field_fault("B-38")
def test_dead_letters_are_tried_again_by_a_better_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 1000, {7: (20_000.0, 1.0), 8: (None, 1.0), 900: (20_000.0, 2.0)})
    assert submit(place, "--chunk-rows", "500") == 3
    publish_ratios(place.store, tmp_path / "better", entries=30_000)
    again = f"{place.output}-again"
    options = ("--output", again, "--engine", "local", "--workers", "1", "--wait", "--json")
    capsys.readouterr()
    assert on(place, "retry-dlq", *options) == 3, "one row has no value for the model still"
    captured = capsys.readouterr()
    assert f"3 rows of job {JOB} will be tried again" in captured.err
    done = json.loads(captured.out)
    assert (done["rows"], done["rows_dlq"], done["model"]["version"]) == (3, 1, 2)
    table = pq.read_table(next(Path(again).glob("part-*")))
    wanted = ("id", "note", "prediction", "_retried_row_index")
    assert [tuple(row[name] for name in wanted) for row in table.to_pylist()] == [
        (7, "row 7", [20_000.0], 7),
        (900, "row 900", [10_000.0], 900),
    ]
    assert set(table["_retried_source"].to_pylist()) == {f"{place.input}/rows.parquet"}


def test_dead_letters_that_are_tried_again_and_again_keep_their_first_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 1000, {7: UNKNOWN})
    assert submit(place, "--keep", "note") == 3
    local = ("--engine", "local", "--workers", "1", "--wait", "--json")
    capsys.readouterr()
    assert on(place, "retry-dlq", "--output", f"{place.output}-2", *local) == 3
    second = answer(capsys)["job"]
    publish_ratios(place.store, tmp_path / "better", entries=2_000_000)
    third = ["batch", "retry-dlq", second, "--output", f"{place.output}-3"]
    assert run([*third, "--store", place.store, *local]) == 0
    (row,) = pq.read_table(next(Path(f"{place.output}-3").glob("part-*"))).to_pylist()
    assert (row["id"], row["note"], row["prediction"]) == (7, "row 7", [1e6])
    assert (row["_retried_source"], row["_retried_row_index"]) == (
        f"{place.input}/rows.parquet",
        7,
    )


def test_malformed_lines_are_left_out_of_a_second_try(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = lines_place(tmp_path)
    assert submit(place, "--max-bad-rows", "2%") == 3
    publish_ratios(place.store, tmp_path / "better", entries=2_000_000)
    again = f"{place.output}-again"
    capsys.readouterr()
    options = ("--output", again, "--engine", "local", "--workers", "1", "--wait")
    assert on(place, "retry-dlq", *options) == 0
    assert "2 rows of job" in (told := capsys.readouterr().err)
    assert "10 could not be read and are left out" in told
    assert answers_by_id(again) == dict.fromkeys(sorted(RAISING), 1e6)


def test_an_unpublished_jobs_dead_letters_are_not_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ratio_place(tmp_path, 10, {7: UNKNOWN})
    write_rows_with(Path(place.input, "more.parquet"), 10)
    assert submit(place) == 1
    capsys.readouterr()
    assert on(place, "retry-dlq", "--output", f"{place.output}-again") == 1
    assert f"job {JOB} has failed (too_many_bad_rows)" in capsys.readouterr().err


def test_rows_that_could_not_be_read_are_to_be_corrected_and_not_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = lines_place(tmp_path)
    file = Path(place.input, "rows.jsonl")
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[place] for place in range(1000) if place not in RAISING))
    assert submit(place, "--max-bad-rows", "2%") == 3
    capsys.readouterr()
    assert on(place, "retry-dlq", "--output", f"{place.output}-again") == 1
    told = capsys.readouterr().err
    assert "has only rows that could not be read, 10 of them" in told
    assert f"Correct the lines that 'tidegate batch dead-letters {JOB}' names" in told
