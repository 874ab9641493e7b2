"""``tidegate batch estimate``: a sample is really scored, and nothing of it is kept."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import Place, new_place
from tidegate.cli import run

ROWS = 3000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return new_place(tmp_path, ROWS)


def question(place: Place, *options: str) -> list[str]:
    return [
        *("batch", "estimate", "--model", "double@stable", "--input", place.input, "--key", "id"),
        *("--output", place.output, "--store", place.store, "--chunk-rows", "400", *options),
    ]


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_what_follows_from_a_sample_is_told_beside_what_was_measured(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(question(place, "--workers", "1", "--json")) == 0
    told = answer(capsys)
    measured = told["measured"]
    assert (told["rows"], told["files"], told["model"]) == (ROWS, 1, "double@1")
    assert 0 < measured["rows"] <= ROWS
    assert (measured["workers"], measured["bad_rows"]) == (1, 0)
    assert measured["start_s"] < told["wall_low_s"] < told["wall_s"] < told["wall_high_s"]
    assert told["wall_s"] == pytest.approx(measured["start_s"] + ROWS / told["rows_per_s"])
    assert told["peak_rss_bytes"] > 1e7
    assert told["output_bytes"] == measured["output_bytes"] * ROWS // measured["rows"] > 0
    cost = told["cost"]
    assert (cost["instance"], cost["usd_per_hour_low"], cost["usd_per_hour_high"]) == (
        "c7g.2xlarge",
        "0.095",
        "0.29",
    )
    hours = told["wall_high_s"] * cost["share"] / 3600
    assert float(cost["usd_high"]) == pytest.approx(0.29 * hours, abs=1e-4)


def test_an_estimate_leaves_nothing_behind(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(question(place)) == 0
    told = capsys.readouterr().out
    assert f"{ROWS} rows in 1 file, 9 chunks, with double@1" in told
    assert "Measured: " in told
    assert "look it up again" in told, "the prices are older than three months"
    assert not Path(place.output).exists()
    assert not Path(place.store, "jobs").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_file_of_a_submission_serves_an_estimate_too(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"model": "double@stable", "input": place.input, "output": place.output}
    asked |= {"engine": "ray", "client_token": "nightly", "store": place.store}
    file = tmp_path / "job.toml"
    file.write_text("".join(f'{key} = "{value}"\n' for key, value in asked.items()))
    assert run(["batch", "estimate", "--spec", str(file), "--json"]) == 0
    assert answer(capsys)["rows"] == ROWS
    file.write_text(file.read_text() + "chunkrows = 7\n")
    assert run(["batch", "estimate", "--spec", str(file)]) == 2
    assert "did you mean chunk_rows?" in capsys.readouterr().err


def test_what_a_submission_would_refuse_an_estimate_refuses(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(question(place, "--key", "idd")) == 1
    assert "column 'idd'" in capsys.readouterr().err
    assert run(question(place, "--output", "out/{dat}")) == 2
    assert "Did you mean {date}?" in capsys.readouterr().err
    assert run(question(place, "--instance", "g6.xlarg")) == 2
    assert "Did you mean g6.xlarge?" in capsys.readouterr().err
    assert run(question(place, "--region", "mars")) == 2
    assert "Known: eu-central-1" in capsys.readouterr().err


def asked_of_lines(place: Place, folder: Path, lines: list[str], *options: str) -> list[str]:
    """Ask about a file of JSON Lines instead."""
    (folder / "rows.jsonl").write_text("\n".join(lines))
    asked = question(place, "--workers", "1", *options)
    asked[asked.index(place.input)] = str(folder / "rows.jsonl")
    return asked


def test_bad_rows_of_the_sample_are_told_with_reasons_and_whether_they_are_too_many(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"id": number, "a": number, "b": 1}) for number in range(600)]
    lines[1::5] = ["{"] * len(lines[1::5])
    assert run(asked_of_lines(place, tmp_path, lines)) == 1
    told = capsys.readouterr().out
    assert "rows of the sample could not be scored:" in told
    assert re.search(
        r"\n  malformed_row \d+, first .*/rows\.jsonl, line 2: the line is no JSON", told
    )
    assert "With so many bad rows the job would fail: correct the input" in told
    assert run(asked_of_lines(place, tmp_path, lines, "--max-bad-rows", "50%", "--json")) == 0
    told_to_programs = answer(capsys)
    assert told_to_programs["too_many_bad_rows"] is False
    assert told_to_programs["measured"]["bad"][0]["code"] == "malformed_row"


def test_an_estimate_of_nothing_says_that_there_are_no_rows(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in Path(place.input).iterdir():
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    assert run(question(place)) == 1
    assert f"{place.input}/: expected at least one row, found none" in capsys.readouterr().err


def test_an_output_that_is_taken_is_noticed_before_a_row_is_scored(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    options = question(place)[2:]
    assert run(["batch", "submit", *options, "--engine", "local", "--wait"]) == 0
    capsys.readouterr()
    assert run(question(place)) == 1
    assert "belongs to job" in capsys.readouterr().err


def test_a_short_limit_still_foretells_from_what_was_scored(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(question(place, "--limit-s", "0.001", "--workers", "1", "--json")) == 0
    assert answer(capsys)["measured"]["rows"] > 0


def test_an_estimate_is_of_the_right_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    place = new_place(tmp_path / "large", 200_000, row_group_rows=20_000)
    options = ["--model", "double@stable", "--input", place.input, "--output", place.output]
    options += ["--store", place.store, "--workers", "2", "--json"]
    assert run(["batch", "estimate", *options]) == 0
    foretold = answer(capsys)
    assert run(["batch", "submit", *options[:-1], "--engine", "local", "--wait", "--json"]) == 0
    assert 1 / 4 < answer(capsys)["seconds"] / foretold["wall_s"] < 4, "and no guess"
