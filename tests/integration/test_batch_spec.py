"""``--spec job.toml``, templates of the output, and what a client token then means."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    new_place,
    parts_with,
    published_rows,
)
from tidegate.cli import run
from tidegate_batch.core.errors import JobConflictError
from tidegate_batch.core.wishes import Wishes
from tidegate_batch.pipeline.submission import submit

ROWS = 40


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    return new_place(tmp_path, ROWS)


def spec(place: Place, folder: Path, **changes: str) -> str:
    lines = {
        "model": '"double@stable"',
        "input": f'"{place.input}"',
        "output": f'"{place.output}/{{job}}"',
        "store": f'"{place.store}"',
        "key": '["id"]',
        "engine": '"local"',
        "workers": "1",
        "chunk_rows": "7",
        "wait": "true",
    }
    file = folder / "job.toml"
    file.write_text("".join(f"{key} = {value}\n" for key, value in {**lines, **changes}.items()))
    return str(file)


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_a_job_is_described_by_a_file_and_what_is_typed_wins(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "submit", "--spec", spec(place, tmp_path), "--chunk-rows", "20"]) == 0
    capsys.readouterr()
    assert run(["batch", "list", "--store", place.store, "--json"]) == 0
    (job,) = answer(capsys)["jobs"]
    assert (job["state"], job["chunks"]) == ("published", 2)
    assert job["output"] == f"{place.output}/{job['job']}"
    assert_each_row_once(job["output"], ROWS)


@pytest.mark.field_fault("B-23")
def test_everything_that_cannot_be_meant_is_told_at_once(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = spec(
        place, tmp_path, chunk_row="7", workers='"two"', wait="1", key="[1]", json='"out.json"'
    )
    assert run(["batch", "submit", "--spec", file]) == 2
    told = capsys.readouterr().err
    assert "chunk_row: no such option; did you mean chunk_rows?" in told
    assert "workers = 'two': expected a whole number" in told
    assert "wait = 1: expected a boolean" in told
    assert "key = [1]: expected a string or a list of strings" in told
    assert "json: no such option" in told


def test_what_click_checks_it_checks_in_a_file_too(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "submit", "--spec", spec(place, tmp_path, workers="0")]) == 2
    assert "0 is not in the range x>=1" in capsys.readouterr().err
    assert run(["batch", "submit", "--spec", spec(place, tmp_path, engine='"spark"')]) == 2
    assert "'spark' is not one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "kept"), [({"keep": "[]"}, []), ({}, ["note"]), ({"keep": '["note"]'}, ["note"])]
)
def test_an_empty_list_of_columns_to_keep_keeps_none(
    place: Place, tmp_path: Path, typed: dict[str, str], kept: list[str]
) -> None:
    output = str(tmp_path / "scores")
    assert (
        run(["batch", "submit", "--spec", spec(place, tmp_path, output=f'"{output}"', **typed)])
        == 0
    )
    names = published_rows(output).schema.names
    assert [name for name in names if name in {"a", "b", "note"}] == kept


def test_an_empty_client_token_is_refused(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "submit", "--spec", spec(place, tmp_path), "--client-token", ""]) == 2
    assert "the client token is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"), [("model = ", "is no TOML"), (None, "cannot be read")]
)
def test_a_file_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    file = tmp_path / "job.toml"
    if content is not None:
        file.write_text(content)
    assert run(["batch", "submit", "--spec", str(file)]) == 2
    assert message in capsys.readouterr().err


class Day:
    """A wall clock that shows noon of one day."""

    def __init__(self, day: int) -> None:
        self._day = day

    def utc_now(self) -> datetime:
        return datetime(2026, 12, self._day, 12, tzinfo=UTC)


def test_the_same_token_finds_the_same_job_whatever_day_it_is(place: Place) -> None:
    first, second = (dataclasses.replace(parts_with(), wall=Day(day)) for day in (1, 2))
    asked = place.submission(output=f"{place.output}/{{date}}-{{version}}", client_token="nightly")
    made = submit(asked, store_url=place.store, parts=first)
    found = submit(asked, store_url=place.store, parts=second)
    assert found.job == made.job
    assert found.spec().request.output == f"{place.output}/2026-12-01-1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_rows": 5}, "chunk_rows 20000, not 5"),
        ({"wishes": Wishes(priority=1)}, "priority 2, not 1"),
        ({"output": "elsewhere/{job}"}, "output "),
        ({"keep": ["id"]}, r'keep unset, not \["id"\]'),
    ],
)
def test_the_same_token_with_another_spec_is_a_conflict(
    place: Place, change: dict[str, object], message: str
) -> None:
    parts = parts_with()
    submit(place.submission(client_token="nightly"), store_url=place.store, parts=parts)
    with pytest.raises(JobConflictError, match=message):
        submit(
            place.submission(client_token="nightly", **change), store_url=place.store, parts=parts
        )
