"""Whole jobs, driver and workers in this process: what is written, and what is said of it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]  # its stubs are a package of their own
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.fixtures import onnx_models
from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    new_place,
    publish_as,
    published_rows,
    run_job,
    table,
)
from tidegate.ids import ModelRef
from tidegate.objects.opening import open_store
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.watching import status_of


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Hold 2001 rows in two files, and the model."""
    return new_place(tmp_path, 700, 1301)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.field_fault("B-11")
@pytest.mark.parametrize("chunk_rows", [1, 7, 300, 20_000])
def test_each_row_is_published_once_whatever_the_size_of_a_chunk(
    tmp_path: Path, chunk_rows: int
) -> None:
    place = new_place(tmp_path, 13, 38, row_group_rows=10)
    run_job(place, tmp_path / "cache", chunk_rows=chunk_rows)
    assert_each_row_once(place.output, 51)


READERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "pyarrow": lambda folder: ds.dataset(folder, format="parquet").to_table()["id"].to_pylist(),
    "polars": lambda folder: pl.read_parquet(f"{folder}/part-*.parquet")["id"].to_list(),
    "duckdb": lambda folder: [
        row[0] for row in duckdb.execute(f"select id from '{folder}/**/*.parquet'").fetchall()
    ],
    "pandas": lambda folder: pd.concat(
        pd.read_parquet(file) for file in sorted(Path(folder).glob("part-*"))
    )["id"].tolist(),
}


@pytest.mark.parametrize("reader", list(READERS))
def test_a_published_output_is_read_by_everybody_each_row_once(
    place: Place, cache: Path, reader: str
) -> None:
    run_job(place, cache, chunk_rows=300)
    assert sorted(READERS[reader](place.output)) == list(range(2001))


def test_columns_are_kept_as_they_were_and_predictions_and_provenance_are_added(
    place: Place, cache: Path
) -> None:
    record = run_job(place, cache, chunk_rows=300)
    spec, rows = record.spec(), published_rows(place.output)
    assert rows.schema.names == [
        "id",
        "note",
        "prediction",
        "_model_name",
        "_model_version",
        "_model_digest",
        "_job_id",
        "_chunk_id",
        "_source",
        "_row_index",
    ]
    assert rows.select(["id", "note"]).equals(table(range(2001)).select(["id", "note"]))
    first = rows.slice(700, 1).to_pylist()[0]
    assert (first["_model_name"], first["_model_version"]) == ("double", 1)
    assert first["_model_digest"] == spec.model.digest
    assert (first["_job_id"], first["_chunk_id"]) == (spec.job, "000003")
    assert first["_source"] == f"{place.input}/rows-01.parquet"
    assert first["_row_index"] == 0


def test_a_part_says_in_its_metadata_what_made_it(place: Place, cache: Path) -> None:
    job = run_job(place, cache).spec()
    metadata = pq.read_metadata(f"{place.output}/part-000000-{job.job}.parquet").metadata
    assert metadata is not None
    assert metadata[b"tidegate.model_name"] == b"double"
    assert metadata[b"tidegate.model_version"] == b"1"
    assert metadata[b"tidegate.model_digest"] == job.model.digest.encode()
    assert metadata[b"tidegate.job_id"] == job.job.encode()
    assert metadata[b"tidegate.chunk_id"] == b"000000"


@pytest.mark.parametrize(
    ("key", "keep", "columns"),
    [
        ([], None, ["id", "note"]),
        (["note"], None, ["note", "id"]),
        (["a"], ["note"], ["a", "note"]),
        (["id"], ["id"], ["id"]),
    ],
)
def test_the_caller_chooses_the_columns_to_copy(
    place: Place, cache: Path, key: list[str], keep: list[str] | None, columns: list[str]
) -> None:
    run_job(place, cache, key=key, keep=keep)
    names = published_rows(place.output).schema.names
    assert names[: names.index("prediction")] == columns


@pytest.mark.field_fault("B-26")
def test_the_manifest_counts_every_part_and_every_row(place: Place, cache: Path) -> None:
    job = run_job(place, cache, chunk_rows=300)
    manifest = read_manifest(open_store(place.output))
    assert manifest is not None
    assert (manifest.job, manifest.model) == (job.job, job.spec().model)
    assert (manifest.rows_in, manifest.rows_out, manifest.rows_dlq) == (2001, 2001, 0)
    on_disk = {path.name: path.stat().st_size for path in Path(place.output).glob("*.parquet")}
    assert on_disk == {part.key: part.bytes for part in manifest.parts}
    assert sum(part.rows for part in manifest.parts) == 2001
    assert [column.name for column in manifest.columns] == published_rows(place.output).column_names
    assert (Path(place.output) / "_SUCCESS").read_bytes() == b""
    assert list(Path(place.output).glob("**/*.attempt")) == []


def test_an_input_without_rows_publishes_an_empty_manifest(tmp_path: Path, cache: Path) -> None:
    place = new_place(tmp_path, 0)
    record = run_job(place, cache)
    manifest = read_manifest(open_store(place.output))
    assert manifest is not None
    assert (manifest.rows_out, manifest.parts) == (0, ())
    assert status_of(record).state == "published"


def test_missing_values_take_the_default_that_the_model_was_published_with(
    tmp_path: Path, cache: Path
) -> None:
    place = new_place(tmp_path, 0)
    rows = pa.table({"id": [0, 1], "a": [1.0, 2.0], "b": pa.array([None, 4], type=pa.int32())})
    pq.write_table(rows, f"{place.input}/rows-00.parquet")
    run_job(place, cache)
    assert published_rows(place.output)["prediction"].to_pylist() == [[2, 14], [4, 8]]


def test_a_row_group_is_decoded_once_although_it_makes_many_chunks(
    tmp_path: Path, cache: Path
) -> None:
    place = new_place(tmp_path, 5000, row_group_rows=5000)
    run_job(place, cache, chunk_rows=100)
    assert_each_row_once(place.output, 5000)
    parts = sorted(Path(place.output).glob("*.parquet"))
    assert len(parts) == 50
    assert [pq.ParquetFile(part).metadata.num_row_groups for part in parts] == [1] * 50


def test_a_model_without_named_columns_reads_lists_from_the_column_of_its_input(
    place: Place, cache: Path, tmp_path: Path
) -> None:
    publish_as("plain", place.store, onnx_models.scale(tmp_path / "plain.onnx", by=3))
    rows = pa.table({"id": [1, 2], "input": pa.array([[1.0, 2.0], [3.0, 4.0]])})
    pq.write_table(rows, tmp_path / "lists.parquet")
    ref = ModelRef.parse("plain")
    run_job(place, cache, model=ref, inputs=[str(tmp_path / "lists.parquet")])
    assert published_rows(place.output).select(["id", "prediction"]).to_pylist() == [
        {"id": 1, "prediction": [3, 6]},
        {"id": 2, "prediction": [9, 12]},
    ]


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_a_model_that_takes_a_fixed_number_of_rows_scores_any_number(
    tmp_path: Path, cache: Path, rows: int
) -> None:
    place = new_place(tmp_path, 0)
    publish_as("fixed", place.store, onnx_models.echo_fixed_rows(tmp_path / "f.onnx", rows=4))
    lists = pa.table({"id": range(rows), "input": [[float(row), 0.5] for row in range(rows)]})
    pq.write_table(lists, f"{place.input}/rows-00.parquet")
    run_job(place, cache, model=ModelRef.parse("fixed"))
    predictions = published_rows(place.output)["prediction"].to_pylist()
    assert predictions == [[row, 0.5] for row in range(rows)]
