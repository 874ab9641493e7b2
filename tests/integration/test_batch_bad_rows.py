"""Rows that fail: all others are scored, and each of these lies in the dead letters with why."""

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes.engines import AFTER_COMMIT, BEFORE_COMMIT
from tests.fixtures import text_models
from tests.fixtures.bad_rows import (
    answers_by_id,
    dead_letters_of,
    ratio_place,
)
from tests.fixtures.batch_jobs import (
    Place,
    drive,
    inline_engine,
    parts_with,
    publish_as,
    published_rows,
    run_job,
)
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import InputInvalidError, TooManyBadRowsError
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.counting import refuse_too_many_bad_rows
from tidegate_batch.pipeline.loading import load_scorer
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify
from tidegate_batch.ports import Assignment, BadRow, Committed, Line, ReadRows, WorkerSetup
from tidegate_batch.sources.files import FileSource

MISSING = (None, 1.0)
UNKNOWN = (1e6, 1.0)
"""The model looks it up, and raises."""
ENDLESS = (1.0, 0.0)
TEXTS = '[text]\ntokenizer = "words.json"\nmax_tokens = 64\n[pooling]\noutput = "hidden"\n'


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def assert_sound(record: JobRecord) -> None:
    verdict = verify(record, parts=parts_with())
    assert verdict.is_sound, verdict.problems


@pytest.mark.field_fault("B-19", "B-21", "B-22")
def test_each_bad_row_is_a_dead_letter_with_its_reason_and_every_other_row_is_scored(
    tmp_path: Path, cache: Path
) -> None:
    changed = {3: MISSING, 500: UNKNOWN, 501: UNKNOWN, 640: (1e300, 1.0), 999: ENDLESS}
    place = ratio_place(tmp_path, 1000, changed)
    record = run_job(place, cache, chunk_rows=300)
    assert answers_by_id(place.output) == {
        row: float(row) for row in range(1000) if row not in changed
    }
    dead = dead_letters_of(place, record.job)
    assert dead["id"].to_pylist() == dead["_row_index"].to_pylist() == sorted(changed)
    codes = ["missing_value", "model_failed", "model_failed", "signature_mismatch"]
    assert dead["_error_code"].to_pylist() == [*codes, "non_finite_output"]
    messages = [str(message) for message in dead["_error_message"].to_pylist()]
    assert messages[0].startswith("Input 'a': expected a number")
    assert "the model raised on a batch of 1 rows" in messages[1]
    assert messages[3].startswith("Input 'a': expected a finite number within the range of FP32")
    assert messages[4] == (
        "the model answers NaN or infinity as 'prediction'; the row is as it should be"
    )
    assert not any("row 0" in message for message in messages), "which would be that of a batch"
    assert_sound(record)


def test_a_dead_letter_holds_the_row_as_it_was_and_who_could_not_score_it(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 20, {7: UNKNOWN})
    record = run_job(place, cache, max_bad_rows="1", keep=["note"])
    commit = next(record.commits(record.plan()))  # type: ignore[arg-type] # it has a plan
    assert commit is not None
    (letter,) = dead_letters_of(place, record.job).to_pylist()
    assert letter.pop("_error_message").startswith("the model raised")
    model = record.spec().model
    assert letter == {
        "a": 1e6,
        "b": 1.0,
        "id": 7,
        "note": "row 7",
        "_error_code": "model_failed",
        "_attempt": commit.attempt,
        "_model_name": "double",
        "_model_version": 1,
        "_model_digest": model.digest,
        "_job_id": record.job,
        "_chunk_id": "000000",
        "_source": f"{place.input}/rows.parquet",
        "_row_index": 7,
        "_was_read": True,
        "_line": None,
        "_text": None,
    }


def test_commit_manifest_and_state_count_the_dead_letters(tmp_path: Path, cache: Path) -> None:
    place = ratio_place(tmp_path, 1000, {3: MISSING, 500: UNKNOWN, 501: UNKNOWN})
    record = run_job(place, cache, chunk_rows=400)
    plan, store = record.plan(), open_store(place.store)
    assert plan is not None
    commits = [commit for commit in record.commits(plan) if commit]
    counts = [(commit.rows_in, commit.rows_out, commit.rows_dlq) for commit in commits]
    assert counts == [(333, 332, 1), (333, 331, 2), (334, 334, 0)]
    assert commits[2].dead_letters is None
    file = commits[1].dead_letters
    assert file is not None
    stored = store.get(file.key)
    assert stored is not None
    assert file.key == f"jobs/{record.job}/dead_letters/000001.{commits[1].attempt}.parquet"
    assert (file.rows, file.reasons) == (2, {"model_failed": 2})
    assert (file.bytes, file.etag) == (len(stored.body), stored.etag)
    assert file.sha256 == hashlib.sha256(stored.body).hexdigest()
    manifest = read_manifest(open_store(place.output))
    assert manifest is not None
    assert (manifest.rows_in, manifest.rows_out, manifest.rows_dlq) == (1000, 997, 3)
    assert [part.rows for part in manifest.dead_letters] == [1, 2]
    assert manifest.dead_letters[1].key == file.key
    assert manifest.dead_letter_reasons == {"model_failed": 2, "missing_value": 1}
    assert manifest.request.max_bad_rows == "1%"
    state = record.state()
    assert state is not None
    assert state.rows_dlq == 3


def test_at_a_worse_input_the_job_fails_early_and_says_why(tmp_path: Path, cache: Path) -> None:
    place = ratio_place(tmp_path, 3000, dict.fromkeys(range(0, 22, 2), UNKNOWN))
    parts = parts_with()
    record = submit(place.submission(chunk_rows=500), store_url=place.store, parts=parts)
    engine = inline_engine(parts)
    with pytest.raises(TooManyBadRowsError, match=r"11 of the 1000 rows seen .* model_failed 11"):
        drive(record, parts, cache, engine=engine)
    assert len(engine.assigned) == 2, "the other four chunks are not scored"
    state = record.state()
    assert state is not None
    assert (state.state, state.failure and state.failure.code) == (
        State.FAILED,
        "too_many_bad_rows",
    )
    assert list(Path(place.output).glob("**/part-*")) == []
    again = inline_engine(parts)
    with pytest.raises(TooManyBadRowsError):
        drive(record, parts, cache, engine=again)
    assert again.assigned == [], "a resume finds the same rows, and spends nothing"


def test_few_rows_are_held_to_the_limit_at_the_end(tmp_path: Path, cache: Path) -> None:
    place, parts = ratio_place(tmp_path, 100, {1: UNKNOWN, 2: UNKNOWN}), parts_with()
    record = submit(place.submission(), store_url=place.store, parts=parts)
    with pytest.raises(TooManyBadRowsError, match="2 of the 100 rows"):
        drive(record, parts, cache)
    assert list(Path(place.output).glob("**/part-*")) == []
    plan = record.plan()
    assert plan is not None
    with pytest.raises(TooManyBadRowsError):  # whatever workers have said: from the commits alone
        refuse_too_many_bad_rows(record, plan)


def test_a_job_of_bad_rows_alone_is_published_if_that_is_allowed(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 40, dict.fromkeys(range(40), UNKNOWN))
    record = run_job(place, cache, chunk_rows=10, max_bad_rows="100%")
    assert answers_by_id(place.output) == {}
    assert dead_letters_of(place, record.job)["id"].to_pylist() == list(range(40))
    assert_sound(record)


@pytest.mark.field_fault("B-18")
def test_a_text_that_is_too_long_is_a_dead_letter_and_the_others_are_scored(
    tmp_path: Path, cache: Path
) -> None:
    text_models.tokenizer().save(str(tmp_path / "words.json"))
    transform = tmp_path / "transform.toml"
    transform.write_text(TEXTS)
    store, model = str(tmp_path / "store"), text_models.encoder(tmp_path / "m.onnx")
    publish_as("double", store, model, transform=transform)
    texts = ["good tide"] * 20
    texts[3], texts[7], texts[11] = "tide " * 63, "é" * 3000, ""
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": pa.array(range(20)), "text": pa.array(texts)})
    pq.write_table(rows, tmp_path / "in/rows.parquet")
    place = Place(store=store, input=str(tmp_path / "in"), output=str(tmp_path / "out"))
    record = run_job(place, cache, max_bad_rows="2")
    dead = dead_letters_of(place, record.job)
    assert [(row["id"], row["_error_code"]) for row in dead.to_pylist()] == [
        (3, "too_long"),
        (7, "too_long"),
    ]
    assert dead["text"].to_pylist() == [texts[3], texts[7]]
    assert published_rows(place.output)["id"].to_pylist() == [
        row for row in range(20) if row not in {3, 7}
    ]


def test_a_column_to_copy_that_is_called_as_one_of_the_dead_letters_is_refused(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 10)
    file = Path(place.input, "rows.parquet")
    pq.write_table(pq.read_table(file).append_column("_line", pa.array(range(10))), file)
    with pytest.raises(InputInvalidError, match="'_line': expected another name, or --keep"):
        run_job(place, cache)


def test_files_whose_columns_differ_in_type_share_the_dead_letters_of_a_chunk(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 10, {2: UNKNOWN})
    whole = pq.read_table(f"{place.input}/rows.parquet")
    integers = pa.array([1, 2, 10**6], type=pa.int32())
    table = whole.slice(0, 3).set_column(1, "a", integers)
    pq.write_table(table, f"{place.input}/whole.parquet")
    record = run_job(place, cache, max_bad_rows="2")
    dead = dead_letters_of(place, record.job)
    assert dead["a"].to_pylist() == [1e6, 1e6]
    sources = [f"{place.input}/rows.parquet", f"{place.input}/whole.parquet"]
    assert dead["_source"].to_pylist() == sources
    assert_sound(record)


def test_workers_that_die_and_second_attempts_leave_one_dead_letter_for_each_bad_row(
    tmp_path: Path, cache: Path
) -> None:
    changed = dict.fromkeys(range(0, 100, 25), UNKNOWN)
    place = ratio_place(tmp_path, 100, changed)
    parts = parts_with()
    submission = place.submission(chunk_rows=10, max_bad_rows="10%")
    record = submit(submission, store_url=place.store, parts=parts)
    deaths: dict[int, str | BaseException] = {0: BEFORE_COMMIT, 2: AFTER_COMMIT, 6: AFTER_COMMIT}
    drive(record, parts, cache, engine=inline_engine(parts, deaths))
    assert dead_letters_of(place, record.job)["id"].to_pylist() == sorted(changed)
    assert_sound(record)


def test_an_attempt_that_comes_second_leaves_no_dead_letters(tmp_path: Path, cache: Path) -> None:
    place, parts = ratio_place(tmp_path, 20, {7: UNKNOWN}), parts_with()
    record = submit(place.submission(max_bad_rows="1"), store_url=place.store, parts=parts)
    engine = inline_engine(parts, {0: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        drive(record, parts, cache, engine=engine)
    setup = WorkerSetup(store=place.store, job=record.job, epoch=1, threads=1, cache_dir=str(cache))
    scorer = load_scorer(setup, parts=parts, worker="twice")
    for attempt in ("1" * 32, "2" * 32):
        said = scorer.score(Assignment(chunk="000000", attempt=attempt))
        assert said == Committed(chunk="000000", reasons={"model_failed": 1})
    scorer.close()
    assert set(dead_letters_of(place, record.job)["_attempt"].to_pylist()) == {"1" * 32}
    assert len(list(Path(place.output, "_tidegate", record.job).iterdir())) == 1


def test_dead_letters_of_a_losing_attempt_are_removed_and_the_winners_stay(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 20, {7: UNKNOWN})
    parts = parts_with()
    record = submit(place.submission(max_bad_rows="1"), store_url=place.store, parts=parts)
    folder = Path(place.store, "jobs", record.job, "dead_letters")
    loser = folder / f"000000.{'0' * 32}.parquet"
    folder.mkdir(parents=True)
    loser.write_bytes(b"of an attempt that died before its commit")
    drive(record, parts, cache)
    assert not loser.exists()
    assert_sound(record)


@pytest.mark.parametrize("harm", ["gone", "changed", "other rows"])
def test_verify_finds_dead_letters_that_are_not_as_committed(
    tmp_path: Path, cache: Path, harm: str
) -> None:
    place = ratio_place(tmp_path, 20, {7: UNKNOWN})
    record = run_job(place, cache, max_bad_rows="1")
    (file,) = Path(place.store, "jobs", record.job, "dead_letters").iterdir()
    if harm == "gone":
        file.unlink()
    elif harm == "changed":
        file.write_bytes(file.read_bytes() + b"x")
    else:
        _say_another_row(record, file)
    verdict = verify(record, parts=parts_with())
    told = {"gone": "is missing", "changed": "its digest differs", "other rows": "in order"}
    assert told[harm] in "; ".join(verdict.problems)


def _say_another_row(record: JobRecord, file: Path) -> None:
    """Let dead letters, commit and manifest agree on a row that is none of the dead ones."""
    table = pq.read_table(file)
    place = table.schema.get_field_index("_row_index")
    pq.write_table(table.set_column(place, "_row_index", pa.array([8])), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    job = record.job
    commit = Path(record.store.url, "jobs", job, "commits/000000.json")
    manifest = Path(record.spec().request.output, "_MANIFEST.json")
    for document in (commit, manifest):
        content = msgspec.json.decode(document.read_bytes())
        letters = content["dead_letters"]
        (letters if isinstance(letters, dict) else letters[0])["sha256"] = digest
        document.write_bytes(msgspec.json.encode(content))


class LineSource(FileSource):
    """Says of some rows that they were malformed lines."""

    malformed = frozenset({2, 3, 17})

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        for read in super().read(
            planned, first_row=first_row, rows=rows, columns=columns, batch_rows=batch_rows
        ):
            good = [place for place, row in enumerate(read.row_index) if row not in self.malformed]
            bad = [int(row) for row in read.row_index if row in self.malformed]
            index = read.row_index[good]
            yield ReadRows(
                batch=read.batch.take(pa.array(good, type=pa.int64())),
                row_index=index,
                bad=tuple(
                    BadRow(row=row, line=_line(row), code="malformed_row", message="no JSON")
                    for row in bad
                ),
                line=_LinesOf(index),
            )


class _LinesOf:
    """Tells the line of a good row."""

    def __init__(self, index: npt.NDArray[np.int64]) -> None:
        self._index = index

    def __call__(self, place: int) -> Line:
        return _line(int(self._index[place]))


def _line(row: int) -> Line:
    return Line(number=row + 1, text=f'{{"id": {row}')


def test_rows_that_cannot_be_read_are_dead_letters_with_line_and_text(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 20, {4: UNKNOWN})
    parts = dataclasses.replace(parts_with(), source=LineSource(open_store))
    submission = place.submission(chunk_rows=5, max_bad_rows="4")
    record = submit(submission, store_url=place.store, parts=parts)
    drive(record, parts, cache)
    assert sorted(answers_by_id(place.output)) == [
        row for row in range(20) if row not in {2, 3, 4, 17}
    ]
    dead = dead_letters_of(place, record.job).to_pylist()
    facts = ("_row_index", "_line", "_error_code", "id", "_text")
    assert [tuple(letter[name] for name in facts) for letter in dead] == [
        (2, 3, "malformed_row", None, '{"id": 2'),
        (3, 4, "malformed_row", None, '{"id": 3'),
        (4, 5, "model_failed", 4, '{"id": 4'),
        (17, 18, "malformed_row", None, '{"id": 17'),
    ]
    assert_sound(record)
