"""Every format in, every format out: found by its name, checked before anything is spent, read."""

import dataclasses
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import duckdb
import pandas as pd  # type: ignore[import-untyped]  # its stubs are a package of their own
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.fixtures.batch_jobs import (
    Place,
    drive,
    new_place,
    parts_with,
    publish_doubling,
    published_rows,
    run_job,
    table,
)
from tests.fixtures.row_files import NO_COLUMNS, found_at, planned, read
from tidegate.errors import JobError
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import InputInvalidError
from tidegate_batch.core.formats import OutputFormat
from tidegate_batch.main import batch
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify
from tidegate_batch.sources.files import FileSource


def write_jsonl(rows: pa.Table, file: Path) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))


def write_packed(rows: pa.Table, file: Path) -> None:
    write_jsonl(rows, file)
    file.write_bytes(gzip.compress(file.read_bytes()))


def write_csv(rows: pa.Table, file: Path) -> None:
    pyarrow.csv.write_csv(rows, file)


def write_arrow(rows: pa.Table, file: Path) -> None:
    with pa.OSFile(str(file), "wb") as stream, pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=40)


def write_feather(rows: pa.Table, file: Path) -> None:
    pyarrow.feather.write_feather(rows, str(file), compression="zstd", chunksize=30)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": pq.write_table,
    ".jsonl": write_jsonl,
    ".jsonl.gz": write_packed,
    ".csv": write_csv,
    ".arrow": write_arrow,
    ".feather": write_feather,
}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def source() -> Iterator[FileSource]:
    with closing(FileSource(open_store)) as opened:
        yield opened


def place_with(folder: Path, write: Callable[[pa.Table, Path], None], ending: str) -> Place:
    """Publish the model, and write a hundred rows into two files."""
    publish_doubling(str(folder / "store"), folder / "model")
    (folder / "in").mkdir()
    write(table(range(70)), folder / f"in/a{ending}")
    write(table(range(70, 100)), folder / f"in/b{ending}")
    return Place(store=str(folder / "store"), input=str(folder / "in"), output=str(folder / "out"))


@pytest.mark.parametrize("ending", list(WRITERS))
def test_the_same_rows_give_the_same_answers_in_every_format(
    tmp_path: Path, cache: Path, ending: str
) -> None:
    place = place_with(tmp_path, WRITERS[ending], ending)
    record = run_job(place, cache, chunk_rows=25)
    found = published_rows(place.output)  # in the order of the input
    assert found["id"].cast(pa.int64()).to_pylist() == list(range(100))
    assert found["note"].to_pylist() == [f"row {n}" for n in range(100)]
    assert found["prediction"].to_pylist() == [[2.0 * n, 2 * (n % 5 + 0.5)] for n in range(100)]
    assert verify(record, parts=parts_with()).problems == ()


def parts_of(output: str, ending: str) -> list[str]:
    return sorted(str(path) for path in Path(output).glob(f"part-*.{ending}"))


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_an_output_of_text_is_published_and_verified_like_any_other(
    tmp_path: Path, cache: Path, kind: OutputFormat
) -> None:
    place = new_place(tmp_path, 70, 30)
    record = run_job(place, cache, chunk_rows=25, output_format=kind)
    manifest = read_manifest(open_store(place.output))
    assert manifest is not None
    assert manifest.format == kind
    names = [Path(path).name for path in parts_of(place.output, kind)]
    assert sorted(part.key for part in manifest.parts) == names
    assert len(names) == 5
    assert (
        verify(record, parts=parts_with()).rows,
        verify(record, parts=parts_with()).problems,
    ) == (
        100,
        (),
    )


def test_a_part_of_text_that_was_changed_is_noticed(tmp_path: Path, cache: Path) -> None:
    place = new_place(tmp_path, 20)
    record = run_job(place, cache, output_format="jsonl")
    (part,) = parts_of(place.output, "jsonl")
    Path(part).write_bytes(Path(part).read_bytes().replace(b'"_row_index":7', b'"_row_index":8'))
    assert any("digest differs" in told for told in verify(record, parts=parts_with()).problems)


IDS = list(range(100))


def test_json_lines_are_read_by_libraries_of_others(tmp_path: Path, cache: Path) -> None:
    place = new_place(tmp_path, 70, 30)
    run_job(place, cache, chunk_rows=25, output_format="jsonl")
    parts = parts_of(place.output, "jsonl")
    by_arrow = pa.concat_tables([pyarrow.json.read_json(part) for part in parts])
    assert sorted(by_arrow["id"].to_numpy()) == IDS
    by_pandas = pd.concat([pd.read_json(part, lines=True) for part in parts])
    assert sorted(by_pandas["id"]) == IDS
    by_polars = pl.concat([pl.read_ndjson(part) for part in parts])
    assert sorted(by_polars["id"].to_list()) == IDS
    rows = duckdb.execute(f"select id from read_json('{place.output}/*.jsonl')").fetchall()
    assert sorted(row[0] for row in rows) == IDS
    first = json.loads(Path(parts[0]).read_text().splitlines()[3])
    assert first["prediction"] == [6.0, 7.0]
    assert first["_row_index"] == 3


def test_csv_is_read_by_libraries_of_others(tmp_path: Path, cache: Path) -> None:
    place = new_place(tmp_path, 70, 30)
    run_job(place, cache, chunk_rows=25, output_format="csv")
    parts = parts_of(place.output, "csv")
    by_arrow = pa.concat_tables([pyarrow.csv.read_csv(part) for part in parts])
    assert sorted(by_arrow["id"].to_numpy()) == IDS
    by_pandas = pd.concat([pd.read_csv(part) for part in parts])
    assert sorted(by_pandas["id"]) == IDS
    assert json.loads(by_pandas["prediction"].iloc[3]) == [6.0, 7.0]
    by_polars = pl.concat([pl.read_csv(part) for part in parts])
    assert sorted(by_polars["id"].to_list()) == IDS
    rows = duckdb.execute(f"select id from read_csv('{place.output}/*.csv')").fetchall()
    assert sorted(row[0] for row in rows) == IDS


def test_malformed_lines_become_dead_letters_and_the_others_answers(
    tmp_path: Path, cache: Path
) -> None:
    publish_doubling(str(tmp_path / "store"), tmp_path / "model")
    lines = [json.dumps(row) for row in table(range(100)).to_pylist()]
    lines[10], lines[20], lines[30] = "{", '{"id": 20, "a": "x"}', '{"id": 30}'
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    place = Place(
        store=str(tmp_path / "store"),
        input=str(tmp_path / "rows.jsonl"),
        output=str(tmp_path / "out"),
    )
    record = run_job(place, cache, chunk_rows=40, max_bad_rows="5")
    manifest = read_manifest(open_store(place.output))
    assert manifest is not None
    assert (manifest.rows_in, manifest.rows_out, manifest.rows_dlq) == (100, 97, 3)
    assert manifest.dead_letter_reasons == {"malformed_row": 1, "wrong_type": 1, "missing_value": 1}
    assert verify(record, parts=parts_with()).problems == ()


def refusal(place: Place, cache: Path, **changes: object) -> str:
    with pytest.raises(InputInvalidError) as raised:
        run_job(place, cache, **changes)
    assert list(Path(place.output).glob("**/*.attempt")) == []
    return str(raised.value)


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        (
            ".jsonl",
            "expected numbers, found nothing of that kind in the first rows, but the string",
        ),
        (".csv", "expected numbers, found nothing of that kind in the first rows, but the string"),
        (".arrow", "expected numbers, found string"),
    ],
)
def test_all_that_is_wrong_with_files_of_any_format_is_told_at_once(
    tmp_path: Path, cache: Path, ending: str, told: str
) -> None:
    place = place_with(tmp_path, WRITERS[ending], ending)
    rows = table(range(5))
    WRITERS[ending](rows.drop(["a"]), tmp_path / f"in/c{ending}")
    texts = rows.set_column(1, "a", pa.array(["x", "y", "z", "x", "y"]))
    WRITERS[ending](texts, tmp_path / f"in/d{ending}")
    (tmp_path / f"in/e{ending}").write_bytes(b"[\n")
    WRITERS[ending](
        rows.append_column("extra", pa.array([1, 2, 3, 4, 5])), tmp_path / f"in/f{ending}"
    )
    message = refusal(place, cache)
    assert f"c{ending}: column 'a': expected numbers, found no such column" in message
    assert f"d{ending}: column 'a': {told}" in message
    assert f"e{ending}: " in message
    assert f"f{ending}: column 'extra': expected no such column" in message


def test_csv_cannot_hold_the_lists_that_a_model_reads(tmp_path: Path, source: FileSource) -> None:
    (tmp_path / "rows.csv").write_bytes(b'v\n"[1, 2]"\n')
    wanted = pa.schema([pa.field("v", pa.list_(pa.float64()))])
    shape = source.describe(found_at(tmp_path / "rows.csv"), wanted=wanted)
    assert shape.unreadable == {"v": "text, since CSV holds single values"}


def test_a_folder_of_several_formats_is_refused_and_a_glob_or_an_option_helps(
    tmp_path: Path, cache: Path
) -> None:
    place = place_with(tmp_path, write_csv, ".csv")
    pq.write_table(table(range(100, 105)), tmp_path / "in/c.parquet")
    message = refusal(place, cache)
    assert "expected files of one format, found" in message
    assert "means 2 CSV files and 1 Parquet file. Say which with a glob such as '*.csv'" in message
    run_job(place, cache, inputs=[f"{place.input}/*.csv"])
    other = Place(store=place.store, input=place.input, output=f"{place.output}-2")
    run_job(other, cache, input_format="csv")
    assert pq.read_table(other.output).num_rows == 100


def test_a_file_whose_name_says_no_format_is_read_as_the_option_says(
    tmp_path: Path, cache: Path
) -> None:
    place = place_with(tmp_path, write_csv, ".txt")
    place = Place(store=place.store, input=f"{place.input}/*.txt", output=place.output)
    assert "a.txt says no format. Say it with --input-format" in refusal(place, cache)
    run_job(place, cache, input_format="csv")
    assert pq.read_table(place.output).num_rows == 100


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no Arrow IPC file"),
        (b"ARROW1\0\0", "cannot be read as Arrow IPC"),
        (b"FEA1 and so on", "Feather of version 1"),
        (b"\xff\xff\xff\xff and so on", "an Arrow stream"),
    ],
)
def test_what_is_no_arrow_file_is_refused_by_name(
    tmp_path: Path, source: FileSource, content: bytes, told: str
) -> None:
    (tmp_path / "rows.arrow").write_bytes(content)
    with pytest.raises(JobError, match=told):
        source.describe(found_at(tmp_path / "rows.arrow"), wanted=NO_COLUMNS)


def test_an_arrow_file_cut_short_after_it_was_planned_is_an_error_not_a_crash(
    tmp_path: Path, source: FileSource
) -> None:
    file = tmp_path / "rows.arrow"
    write_arrow(table(range(1000)), file)
    plan = planned(found_at(file))
    columns = pa.schema([pa.field("id", pa.int64())])
    reading = source.read(plan, first_row=0, rows=1000, columns=columns, batch_rows=10)
    next(reading)
    with file.open("r+b") as opened:
        opened.truncate(500)
    with pytest.raises(JobError):
        list(reading)


def test_any_range_of_an_arrow_file_is_read_whole_and_in_order(
    store_url: str, tmp_path: Path, source: FileSource
) -> None:
    write_arrow(table(range(95)), tmp_path / "rows.arrow")
    open_store(store_url).put_if_absent("rows.arrow", tmp_path / "rows.arrow")
    plan = planned(found_at(f"{store_url}/rows.arrow"))
    columns = pa.schema([pa.field("id", pa.int64())])
    for first, rows in [(0, 95), (94, 1), (39, 2), (7, 60), (7, 3), (80, 15)]:
        good, _ = read(source, plan, columns, first_row=first, rows=rows, batch_rows=7)
        assert [row["id"] for row in good] == list(range(first, first + rows))


class CountedStore(LocalObjectStore):
    """Counts how often files are opened."""

    opened = 0

    def open(self, key: str, *, etag: str) -> BinaryIO:
        self.opened += 1
        return super().open(key, etag=etag)


@pytest.mark.field_fault("B-32")
def test_very_many_tiny_files_are_opened_twice_each_and_make_few_parts(
    tmp_path: Path, cache: Path
) -> None:
    publish_doubling(str(tmp_path / "store"), tmp_path / "model")
    (tmp_path / "in").mkdir()
    for number in range(300):
        write_jsonl(table([number]), tmp_path / f"in/{number:03}.jsonl")
    place = Place(
        store=str(tmp_path / "store"), input=str(tmp_path / "in"), output=str(tmp_path / "out")
    )
    inputs = CountedStore(tmp_path / "in")
    parts = parts_with(lambda url: inputs if url == place.input else open_store(url))
    record = submit(place.submission(), store_url=place.store, parts=parts)
    drive(record, parts, cache)
    assert inputs.opened == 600  # looked at, and read
    (part,) = parts_of(place.output, "parquet")
    assert pq.read_table(part)["id"].to_pylist() == list(range(300))


def test_a_disk_without_room_for_the_answers_stops_the_job_before_it_begins(
    tmp_path: Path, cache: Path
) -> None:
    place = new_place(tmp_path, 1000)
    parts = dataclasses.replace(parts_with(), free_bytes=lambda folder: 5000)
    record = submit(place.submission(), store_url=place.store, parts=parts)
    with pytest.raises(
        InputInvalidError, match=r"expected room for at least .* MiB of predictions"
    ):
        drive(record, parts, cache)


def test_a_resume_under_another_plan_of_formats_names_them(tmp_path: Path, cache: Path) -> None:
    place = place_with(tmp_path, write_csv, ".csv")
    record = run_job(place, cache)
    plan = record.plan()
    assert plan is not None
    assert plan.fingerprint.parts["formats"] == "csv to parquet"
    assert {planned.format for planned in plan.inputs} == {"csv"}


def test_the_command_takes_and_writes_other_formats(tmp_path: Path) -> None:
    place = place_with(tmp_path, write_csv, ".txt")
    arguments = [
        "--store",
        place.store,
        "--model",
        "double@stable",
        "--input",
        f"{place.input}/*.txt",
    ]
    arguments += ["--input-format", "csv", "--output", place.output, "--format", "jsonl"]
    answer = CliRunner().invoke(batch, ["submit", *arguments, "--engine", "local", "--wait"])
    assert answer.exit_code == 0, answer.output
    parts = [Path(part).read_text() for part in parts_of(place.output, "jsonl")]
    rows = [json.loads(line) for part in parts for line in part.splitlines()]
    assert [row["id"] for row in rows] == [str(number) for number in range(100)]
