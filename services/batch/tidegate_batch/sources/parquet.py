"""Parquet files as a source of rows, read through the object store's pinned file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_batch.core.planning import CHUNK_BYTES, RowGroup
from tidegate_batch.ports import FoundInput, InputShape, Stores
from tidegate_batch.sources.grouped import GroupedFile, GroupedReader, explaining

_LARGE_GROUP_BYTES: Final = CHUNK_BYTES
"""A row group of at most this size is fetched as a whole, in as few requests as possible."""
_READ_BYTES: Final = 8 << 20
"""Of each column at a time, from a remote file with larger row groups; what one request reads."""
_LOCAL_READ_BYTES: Final = 256 << 10
"""Of each column at a time, from a disk: measured as quick as more, and it stays in the cache."""


class ParquetSource(GroupedReader):
    """Reads Parquet, row group by row group."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores, "parquet", _open_parquet)

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        """Read the footer: schema, row groups, and missing values where they are counted."""
        with self._footer(found) as parquet:
            groups = _groups(parquet.metadata)
            return InputShape(
                schema=parquet.schema_arrow, nulls=_nulls(groups), row_groups=_sizes(groups)
            )

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        """Read the footer: row groups."""
        with self._footer(found) as parquet:
            return _sizes(_groups(parquet.metadata))

    @contextmanager
    def _footer(self, found: FoundInput) -> Iterator[pq.ParquetFile]:
        with (
            self._stores(found.store).open(found.key, etag=found.etag) as file,
            explaining(found.source, "parquet"),
            pq.ParquetFile(file) as parquet,
        ):
            yield parquet


class _Parquet:
    """An open Parquet file."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self.group_rows = [group.num_rows for group in _groups(file.metadata)]

    def batches(
        self, group: int, *, columns: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        return self._file.iter_batches(
            batch_size=batch_rows, row_groups=[group], columns=list(columns), use_threads=False
        )


@contextmanager
def _open_parquet(file: BinaryIO | pa.OSFile, is_local: bool) -> Iterator[GroupedFile]:
    metadata = pq.read_metadata(file)
    largest = max((group.total_byte_size for group in _groups(metadata)), default=0)
    is_fetched_whole = not is_local and largest <= _LARGE_GROUP_BYTES
    read_bytes = _LOCAL_READ_BYTES if is_local else _READ_BYTES
    with pq.ParquetFile(
        file,
        metadata=metadata,
        pre_buffer=is_fetched_whole,
        buffer_size=0 if is_fetched_whole else read_bytes,
    ) as parquet:
        yield _Parquet(parquet)


def _groups(metadata: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    return [metadata.row_group(index) for index in range(metadata.num_row_groups)]


def _sizes(groups: Sequence[pq.RowGroupMetaData]) -> tuple[RowGroup, ...]:
    return tuple(
        RowGroup(rows=group.num_rows, size_bytes=group.total_byte_size) for group in groups
    )


def _nulls(groups: Sequence[pq.RowGroupMetaData]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for group in groups:
        for place in range(group.num_columns):
            column = group.column(place)
            statistics = column.statistics
            if statistics and statistics.null_count:  # None where the writer did not count
                name = column.path_in_schema
                counted[name] = counted.get(name, 0) + statistics.null_count
    return counted
