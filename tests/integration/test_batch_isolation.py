"""Rows that kill whoever scores them, and workers that are killed over innocent rows."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
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
from tidegate_batch.core.chunks import HOPELESS_AFTER, ISOLATED_AFTER, RETRY_LIMIT
from tidegate_batch.core.errors import ChunkFailedError
from tidegate_batch.pipeline.isolation import DEATHS_OF_A_ROW
from tidegate_batch.pipeline.loading import load_scorer
from tidegate_batch.pipeline.parts import Parts
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
    """Each byte of it is one death of a process apart, or other harm to it."""
    return tmp_path / "marks"


def job_of(place: Place) -> JobRecord:
    """Submit a job of one chunk that may lose a fifth of its rows."""
    asked = place.submission(chunk_rows=ROWS, max_bad_rows="20%")
    return submit(asked, store_url=place.store, parts=parts_with())


def deadly(marks: Path, *, times: int, how: str = "kills") -> list[str]:
    script = str(ROOT / "tests/fixtures/deadly.py")
    return [sys.executable, script, str(DEADLY), str(times), str(marks), how]


def dead_letters_of(place: Place, record: JobRecord) -> list[Path]:
    return list(Path(place.store).glob(f"jobs/{record.job}/dead_letters/*.parquet"))


def engine_with(
    apart: Sequence[str], deaths: int = ISOLATED_AFTER, *, parts: Parts | None = None
) -> InlineEngine:
    """Lose so many workers in the midst of their chunk, then none."""
    parts = parts or parts_with()

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
    [letters] = dead_letters_of(place, record)
    letter = pq.read_table(letters).to_pylist()[0]
    assert (letter["id"], letter["_error_code"]) == (DEADLY, "row_kills")
    halvings = 2  # it was one of four rows, then of two
    assert marks.stat().st_size == halvings + DEATHS_OF_A_ROW


def test_a_row_that_kills_now_and_then_is_innocent(place: Place, cache: Path, marks: Path) -> None:
    record = job_of(place)
    engine = engine_with(deadly(marks, times=3), ISOLATED_AFTER)
    drive(record, parts_with(), cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert marks.stat().st_size == 3, "over four rows, over two and over one, once each"


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


def test_a_process_apart_that_never_gets_ready_blames_no_row(
    place: Place, cache: Path, marks: Path
) -> None:
    parts = parts_with()
    asked = place.submission(chunk_rows=ROWS, max_bad_rows="100%")
    record = submit(asked, store_url=place.store, parts=parts)
    engine = engine_with(deadly(marks, times=-1, how="never_ready"), parts=parts)
    with pytest.raises(ChunkFailedError, match=r"died before it was ready .* log has its last"):
        drive(record, parts, cache, engine=engine)
    state = record.state()
    assert state is not None
    assert state.failure is not None
    assert state.failure.code == "part_unavailable"
    assert marks.stat().st_size == RETRY_LIMIT, "once for each try of the chunk, not of each row"
    assert dead_letters_of(place, record) == []


def test_a_process_apart_that_is_late_to_get_ready_is_started_again(
    place: Place, cache: Path, marks: Path
) -> None:
    parts = parts_with()
    engine = engine_with(deadly(marks, times=2, how="never_ready"), parts=parts)
    drive(job_of(place), parts, cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert marks.stat().st_size == 2


def test_a_device_that_is_lost_apart_replaces_the_worker_and_blames_no_row(
    place: Place, cache: Path, marks: Path
) -> None:
    engine = engine_with(deadly(marks, times=1, how="loses_device"))
    drive(job_of(place), parts_with(), cache, engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert marks.stat().st_size == 1
    assert len(engine.assigned) == ISOLATED_AFTER + 1 + 1


def test_a_row_that_fails_apart_has_the_code_that_it_would_have_had(
    place: Place, cache: Path, marks: Path
) -> None:
    record = job_of(place)
    engine = engine_with(deadly(marks, times=-1, how="too_long"))
    drive(record, parts_with(), cache, engine=engine)
    [letters] = dead_letters_of(place, record)
    assert pq.read_table(letters).select(["id", "_error_code"]).to_pylist() == [
        {"id": DEADLY, "_error_code": "too_long"}
    ]


@pytest.mark.field_fault("B-21")
def test_a_copied_text_that_is_none_is_a_dead_letter_also_where_rows_are_scored_apart(
    place: Place, cache: Path, marks: Path
) -> None:
    file = next(Path(place.input).iterdir())
    notes = pa.array([b"caf\xe9" if row == 2 else b"text" for row in range(ROWS)])
    pq.write_table(pq.read_table(file).set_column(3, "note", notes.view(pa.string())), file)
    asked = place.submission(chunk_rows=ROWS, max_bad_rows="20%", output_format="csv")
    record = submit(asked, store_url=place.store, parts=parts_with())
    engine = engine_with(deadly(marks, times=1))
    finished = drive(record, parts_with(), cache, engine=engine)
    assert marks.exists(), "the rows were scored apart"
    assert (finished.manifest.rows_out, finished.manifest.rows_dlq) == (ROWS - 1, 1)
    [letters] = dead_letters_of(place, record)
    assert pq.read_table(letters)["id"].to_pylist() == [2]
