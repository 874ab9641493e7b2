"""Files hold bytes that claim to be text: such a row is a dead letter where it must be text."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures import text_models
from tests.fixtures.bad_rows import dead_letters_of, ratio_place
from tests.fixtures.batch_jobs import Place, parts_with, publish_as, published_rows, run_job
from tidegate_batch.pipeline.exporting_dead_letters import write_dead_letters
from tidegate_batch.pipeline.reading_dead_letters import committed_dead_letters
from tidegate_batch.pipeline.verifying import verify

BROKEN = b"caf\xe9"
"""As Latin-1 has it."""
TEXTS = '[text]\ntokenizer = "words.json"\nmax_tokens = 64\n[pooling]\noutput = "hidden"\n'


def with_broken(values: list[str], at: int) -> "pa.Array[Any]":
    coded = [BROKEN if place == at else value.encode() for place, value in enumerate(values)]
    return pa.array(coded).view(pa.string())


@pytest.fixture
def copied(tmp_path: Path) -> Place:
    """Hold ten rows, of which the sixth has a note that is no text."""
    place = ratio_place(tmp_path, 10)
    file = Path(place.input, "rows.parquet")
    notes = with_broken([f"row {row}" for row in range(10)], 5)
    pq.write_table(pq.read_table(file).set_column(3, "note", notes), file)
    return place


def test_a_text_that_is_none_is_a_dead_letter_of_a_model_that_reads_it(tmp_path: Path) -> None:
    text_models.tokenizer().save(str(tmp_path / "words.json"))
    transform = tmp_path / "transform.toml"
    transform.write_text(TEXTS)
    store, model = str(tmp_path / "store"), text_models.encoder(tmp_path / "m.onnx")
    publish_as("double", store, model, transform=transform)
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": pa.array(range(10)), "text": with_broken(["good tide"] * 10, 5)})
    pq.write_table(rows, tmp_path / "in/rows.parquet")
    place = Place(store=store, input=str(tmp_path / "in"), output=str(tmp_path / "out"))
    record = run_job(place, tmp_path / "cache", max_bad_rows="1")
    dead = dead_letters_of(place, record.job)
    assert dead["id"].to_pylist() == [5]
    assert dead["_error_message"].to_pylist() == [
        "Input 'text': expected text in UTF-8, found bytes that are none."
    ]
    assert dead["text"].cast(pa.binary()).to_pylist() == [BROKEN], "as it was"
    assert len(published_rows(place.output)) == 9


@pytest.mark.field_fault("B-21")
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_copied_text_that_is_none_is_a_dead_letter_of_an_output_of_text(
    copied: Place, tmp_path: Path, kind: str
) -> None:
    record = run_job(copied, tmp_path / "cache", max_bad_rows="1", output_format=kind)
    dead = dead_letters_of(copied, record.job)
    assert dead["id"].to_pylist() == [5]
    assert "'note': expected text in UTF-8" in str(dead["_error_message"][0])
    assert verify(record, parts=parts_with()).is_sound
    plan = record.plan()
    assert plan is not None
    files = [file for _, file in committed_dead_letters(record, plan)]
    write_dead_letters(record.store, files, tmp_path / "bad.jsonl")
    (row,) = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(row)["note"] == "caf\N{REPLACEMENT CHARACTER}"


def test_an_output_that_can_hold_it_has_it_as_it_was(copied: Place, tmp_path: Path) -> None:
    run_job(copied, tmp_path / "cache", max_bad_rows="0")
    notes = published_rows(copied.output)["note"].cast(pa.binary()).to_pylist()
    assert notes[4:6] == [b"row 4", BROKEN]
