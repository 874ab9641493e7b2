"""Rows that kill whoever scores them, and workers that are killed over innocent rows."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.fakes.engines import BEFORE_COMMIT, InlineEngine
from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    published_rows,
)
from tests.project import ROOT
from tidegate_batch.core.chunks import HOPELESS_AFTER, ISOLATED_AFTER
from tidegate_batch.core.errors import ChunkFailedError
from tidegate_batch.pipeline.isolation import DEATHS_OF_A_ROW
from tidegate_batch.pipeline.loading import load_scorer
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import ChunkScorer, WorkerSetup

ROWS = 8
DEADLY = 5


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=4)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Each byte of it is one death of a process apart."""
    return tmp_path / "marks"


def job_of(place: Place) -> JobRecord:
    """Submit a job of one chunk that may lose a fifth of its rows."""
    asked = place.submission(chunk_rows=ROWS, max_bad_rows="20%")
    return submit(asked, store_url=place.store, parts=parts_with())


def deadly(marks: Path, *, times: int) -> list[str]:
    script = str(ROOT / "tests/fixtures/deadly.py")
    return [sys.executable, script, str(DEADLY), str(times), str(marks)]


def engine_with(apart: Sequence[str], deaths: int) -> InlineEngine:
    """Lose so many workers in the midst of their chunk, then none."""
    parts = parts_with()

    def build(setup: WorkerSetup) -> ChunkScorer:
        return load_scorer(setup, parts=parts, worker="inline", apart=apart)

    return InlineEngine(build, dict.fromkeys(range(deaths), BEFORE_COMMIT), pause=parts.pause)


@pytest.mark.field_fault("B-03")
def test_a_row_that_always_kills_is_a_dead_letter_and_the_others_are_answered(
    place: Place, cache: Path, marks: Path
) -> None:
    record = job_of(place)
    engine = engine_with(deadly(marks, times=-1), ISOLATED_AFTER)
    finished = drive(record, parts_with(), cache, engine=engine)
    assert (finished.manifest.rows_out, finished.manifest.rows_dlq) == (ROWS - 1, 1)
    assert DEADLY not in published_rows(place.output)["id"].to_pylist()
    [letters] = Path(place.store).glob(f"jobs/{record.job}/dead_letters/*.parquet")
    letter = pq.read_table(letters).to_pylist()[0]
    assert (letter["id"], letter["_error_code"]) == (DEADLY, "row_kills")
    halvings = 2  # it was one of four rows, then of two
    assert marks.stat().st_size == halvings + DEATHS_OF_A_ROW


def test_a_row_that_kills_now_and_then_is_innocent(place: Place, cache: Path, marks: Path) -> None:
    record = job_of(place)
    engine = engine_with(deadly(marks, times=3), ISOLATED_AFTER)
    drive(record, parts_with(), cache, engine=engine)
    assert_each_row_once(place.output, ROWS)


def test_two_dead_workers_are_no_reason_to_score_apart(
    place: Place, cache: Path, marks: Path
) -> None:
    engine = engine_with(deadly(marks, times=-1), ISOLATED_AFTER - 1)
    drive(job_of(place), parts_with(), cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert not marks.exists()


def test_a_chunk_that_kills_even_so_fails_the_job_and_is_named(
    place: Place, cache: Path, marks: Path
) -> None:
    record = job_of(place)
    engine = engine_with(deadly(marks, times=-1), 10**6)
    with pytest.raises(ChunkFailedError, match=r"rows 0 to 7 of input 0.* of 10 workers"):
        drive(record, parts_with(), cache, engine=engine)
    assert len(engine.assigned) == HOPELESS_AFTER
    assert list(Path(place.output).glob("part-*")) == []
