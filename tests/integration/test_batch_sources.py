"""Finding files by what a person names, and reading ranges of their rows."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import table
from tidegate.errors import JobError
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.opening import open_store
from tidegate.objects.port import (
    ObjectChangedError,
    StoreUnavailableError,
    Wanted,
    everything,
)
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.main.wiring import build_parts
from tidegate_batch.ports import FoundInput
from tidegate_batch.sources.finding import find_files
from tidegate_batch.sources.parquet import ParquetSource

ID = pa.schema([("id", pa.int64())])
NONE = pa.schema([])
NAMES = [
    "a.parquet",
    "b.parquet",
    "notes.txt",
    "_SUCCESS",
    "_hidden.parquet",
    ".hidden.parquet",
    "2024-01/x.parquet",
    "2024-02/deep/y.parquet",
    "_tidegate/z.parquet",
    "odd[1].parquet",
]


@pytest.fixture
def files(store_url: str) -> str:
    store = open_store(store_url)
    for name in NAMES:
        store.put_if_absent(name, b"x")
    return store_url


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("/", ["2024-01/x", "2024-02/deep/y", "a", "b", "odd[1]"]),
        ("/a.parquet", ["a"]),
        ("/*.parquet", ["a", "b", "odd[1]"]),
        ("/?.parquet", ["a", "b"]),
        ("/[ab].parquet", ["a", "b"]),
        ("/**/*.parquet", ["2024-01/x", "2024-02/deep/y", "a", "b", "odd[1]"]),
        ("/2024-*/*.parquet", ["2024-01/x"]),
        ("/2024-*/**/*.parquet", ["2024-01/x", "2024-02/deep/y"]),
        ("/2024-02/", ["2024-02/deep/y"]),
        ("/_*.parquet", ["_hidden"]),
        ("/_tidegate/*.parquet", ["_tidegate/z"]),
        ("/odd[1].parquet", ["odd[1]"]),
        ("/missing.parquet", []),
        ("/missing/", []),
        ("/*.csv", []),
    ],
)
def test_the_same_rules_hold_on_disk_and_in_s3(files: str, pattern: str, meant: list[str]) -> None:
    found = find_files(files + pattern, suffix=".parquet", stores=open_store)
    names = [file.source.removeprefix(f"{files}/").removesuffix(".parquet") for file in found]
    assert names == meant


@pytest.mark.parametrize("pattern", ["in/*.parquet", "in/2024-*/*.parquet", "in/**/a.parquet"])
def test_a_link_out_of_the_folder_is_nothing_to_a_glob_that_it_cannot_match(
    tmp_path: Path, pattern: str
) -> None:
    for name in ("in/a.parquet", "in/2024-01/a.parquet", "elsewhere/b.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    outside = tmp_path / "elsewhere"
    for link in ("in/notes.txt", "in/_archive", "in/2024-01/notes", "in/2024-01/.old"):
        (tmp_path / link).symlink_to(outside / "b.parquet" if "notes" in link else outside)
    stores = build_parts().stores
    found = find_files(f"{tmp_path}/{pattern}", suffix=".parquet", stores=stores)
    assert [file.source.removeprefix(f"{tmp_path}/in/") for file in found] == {
        "in/*.parquet": ["a.parquet"],
        "in/2024-*/*.parquet": ["2024-01/a.parquet"],
        "in/**/a.parquet": ["2024-01/a.parquet", "a.parquet"],
    }[pattern]


class AskedStore(LocalObjectStore):
    """A store that lists nothing, and keeps what it would have asked."""

    wanted: Wanted

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        self.wanted = wanted
        return iter(())


@pytest.mark.parametrize(
    ("pattern", "entered"),
    [
        ("*.parquet", ""),
        ("2024-*/*.parquet", "2024-01/"),
        ("2024-*/*/x.parquet", "2024-01/ 2024-01/deep/"),
        ("2024-*/**/x.parquet", "2024-01/ 2024-01/deep/ 2024-01/deep/er/"),
        ("**/_old/*.parquet", "2023-01/ 2024-01/ 2024-01/_old/ 2024-01/deep/ 2024-01/deep/er/"),
    ],
)
def test_a_glob_looks_only_into_folders_that_can_hold_a_match(
    tmp_path: Path, pattern: str, entered: str
) -> None:
    store = AskedStore(tmp_path)
    find_files(f"{tmp_path}/{pattern}", suffix=".parquet", stores=lambda _: store)
    folders = ["2023-01/", "2024-01/", "2024-01/.hidden/", "2024-01/_old/", "2024-01/deep/"]
    assert " ".join(filter(store.wanted, [*folders, "2024-01/deep/er/"])) == entered


@pytest.mark.parametrize("link", ["in/2024-02", "in/2024-01/b.parquet"])
def test_a_link_that_a_glob_means_is_never_left_out_in_silence(tmp_path: Path, link: str) -> None:
    (tmp_path / "in/2024-01").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/b.parquet").touch()
    target = tmp_path / "elsewhere" / ("b.parquet" if link.endswith(".parquet") else "")
    (tmp_path / link).symlink_to(target)
    with pytest.raises(StoreUnavailableError, match=f"{link} leads out of {tmp_path}/in through"):
        find_files(
            f"{tmp_path}/in/2024-*/*.parquet", suffix=".parquet", stores=build_parts().stores
        )


def test_a_folder_means_the_same_with_and_without_a_slash(tmp_path: Path) -> None:
    pq.write_table(table(range(3)), tmp_path / "a.parquet")
    with_slash = find_files(f"{tmp_path}/", suffix=".parquet", stores=open_store)
    assert find_files(str(tmp_path), suffix=".parquet", stores=open_store) == with_slash
    assert [file.key for file in with_slash] == ["a.parquet"]


@pytest.fixture
def planned(store_url: str, tmp_path: Path) -> PlannedInput:
    """Store a file of 95 rows in groups of ten, on each kind of store."""
    pq.write_table(table(range(95)), tmp_path / "rows.parquet", row_group_size=10)
    store = open_store(store_url)
    store.put_if_absent("in/rows.parquet", tmp_path / "rows.parquet")
    head = store.head("in/rows.parquet")
    assert head is not None
    return PlannedInput(
        source="rows.parquet",
        store=store_url,
        key=head.key,
        etag=head.etag,
        bytes=head.size_bytes,
        rows=95,
    )


def ids(
    source: ParquetSource, planned: PlannedInput, first_row: int, rows: int, batch_rows: int = 4
) -> list[object]:
    read = list(
        source.read(planned, first_row=first_row, rows=rows, columns=ID, batch_rows=batch_rows)
    )
    assert all(1 <= part.batch.num_rows <= batch_rows and not part.bad for part in read)
    index = [row for part in read for row in part.row_index]
    assert index == list(range(first_row, first_row + rows))
    return [value for part in read for value in part.batch.column("id").to_pylist()]


def test_any_range_is_read_whole_and_in_order(planned: PlannedInput) -> None:
    source = ParquetSource(open_store)
    for first_row, rows in [(0, 95), (0, 1), (94, 1), (7, 25), (32, 3), (35, 40), (3, 10), (90, 5)]:
        assert ids(source, planned, first_row, rows) == list(range(first_row, first_row + rows))
    source.close()


def test_batches_end_at_the_same_rows_whoever_reads_from_where(planned: PlannedInput) -> None:
    def ends(first_row: int, rows: int, source: ParquetSource) -> set[int]:
        end, found = first_row, set()
        for part in source.read(planned, first_row=first_row, rows=rows, columns=ID, batch_rows=4):
            end += part.batch.num_rows
            found.add(end)
        source.close()
        return found

    whole = ends(0, 95, ParquetSource(open_store))
    assert ends(30, 20, ParquetSource(open_store)) == {end for end in whole if 30 < end <= 50}


def test_a_description_counts_rows_and_missing_values(store_url: str, tmp_path: Path) -> None:
    rows = pa.table({"a": [1, None, 3, None], "b": ["x", "y", None, "z"], "c": [1, 2, 3, 4]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=3)
    store = open_store(store_url)
    store.put_if_absent("rows.parquet", tmp_path / "rows.parquet")
    (found,) = find_files(f"{store_url}/rows.parquet", suffix=".parquet", stores=open_store)
    shape = ParquetSource(open_store).describe(found, wanted=NONE)
    assert shape.row_groups is not None
    assert [group.rows for group in shape.row_groups] == [3, 1]
    assert shape.nulls == {"a": 2, "b": 1}
    assert shape.schema.names == ["a", "b", "c"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all, but long enough to look"])
def test_what_is_no_parquet_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.parquet").write_bytes(content)
    (found,) = find_files(str(tmp_path), suffix=".parquet", stores=open_store)
    with pytest.raises(JobError, match=r"rows\.parquet cannot be read as Parquet"):
        ParquetSource(open_store).describe(found, wanted=NONE)


def test_a_file_that_changed_since_it_was_found_is_refused(store_url: str) -> None:
    store = open_store(store_url)
    store.put_if_absent("rows.parquet", b"x")
    found = FoundInput(
        source="rows.parquet", store=store_url, key="rows.parquet", etag="other", size_bytes=1
    )
    with pytest.raises(ObjectChangedError):
        ParquetSource(open_store).describe(found, wanted=NONE)
