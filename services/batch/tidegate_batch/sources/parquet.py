"""Parquet files as a source of rows, read through the object store's pinned file."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import JobError
from tidegate.objects.port import ObjectChangedError, ObjectStore
from tidegate_batch.core.planning import CHUNK_BYTES, RowGroup
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.ports import FoundInput, InputShape, ReadRows, Stores
from tidegate_batch.sources.finding import find_files

_LARGE_GROUP_BYTES: Final = CHUNK_BYTES
"""A row group of at most this size is fetched as a whole, in as few requests as possible."""
_READ_BYTES: Final = 8 << 20
"""Of each column at a time, from a remote file with larger row groups; what one request reads."""
_LOCAL_READ_BYTES: Final = 256 << 10
"""Of each column at a time, from a disk: measured as quick as more, and it stays in the cache."""


class ParquetSource:
    """Reads ranges of rows; the file of the last range stays open for the next.

    A file is decoded from the start of a row group, so a range that begins where the last one
    ended costs nothing extra. For one thread at a time.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._file: _OpenFile | None = None

    def find(self, pattern: str) -> list[FoundInput]:
        """List the files that a pattern means; see ``find_files``."""
        return find_files(pattern, suffix=".parquet", stores=self._stores)

    def describe(self, found: FoundInput) -> InputShape:
        """Read the footer: row groups, schema, and missing values where they are counted."""
        with (
            self._stores(found.store).open(found.key, etag=found.etag) as file,
            _explaining(found.source),
            pq.ParquetFile(file) as parquet,
        ):
            metadata = parquet.metadata
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            return InputShape(
                row_groups=tuple(
                    RowGroup(rows=group.num_rows, size_bytes=group.total_byte_size)
                    for group in groups
                ),
                schema=parquet.schema_arrow,
                nulls=_nulls(groups),
            )

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: Sequence[str],
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        """Yield a range of rows; batches are cut at the same rows whoever reads from where.

        Every row of a file that can be decoded is a good one.
        """
        file = self._opened(planned)
        end = first_row + rows
        while first_row < end:
            try:
                with _explaining(f"{planned.source}, rows {first_row} to {end - 1}"):
                    batch = file.take(first_row, end, columns=columns, batch_rows=batch_rows)
            except JobError:
                self.close()  # nothing read from it before is worth anything
                file.confirm()  # what cannot be read may be what somebody is writing just now
                raise
            after = first_row + batch.num_rows
            yield ReadRows(batch=batch, row_index=np.arange(first_row, after))
            first_row = after
        file.confirm()

    def close(self) -> None:
        """Close the file that the last range was read from."""
        if self._file:
            self._file.close()
        self._file = None

    def _opened(self, planned: PlannedInput) -> "_OpenFile":
        if self._file is None or self._file.planned != planned:
            self.close()
            self._file = _OpenFile(planned, self._stores(planned.store))
        return self._file


class _OpenFile:
    """One file and how far its rows have been decoded."""

    def __init__(self, planned: PlannedInput, store: ObjectStore) -> None:
        self.planned = planned
        self._store = store
        self._is_local = store.local_path(planned.key) is not None
        with ExitStack() as opened:
            file = opened.enter_context(store.open(planned.key, etag=planned.etag))
            with _explaining(planned.source):
                native = opened.enter_context(_native(file)) if self._is_local else file
                self._parquet = opened.enter_context(_parquet(native, is_local=self._is_local))
            self._opened = opened.pop_all()
        metadata = self._parquet.metadata
        counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        self._group_starts = [0, *accumulate(counts)]
        self._cursor: _Cursor | None = None

    def take(
        self, first_row: int, end: int, *, columns: Sequence[str], batch_rows: int
    ) -> pa.RecordBatch:
        """Return some rows from ``first_row`` on, at least one and none beyond ``end``."""
        if self._cursor is None or not self._cursor.can_reach(first_row):
            group = bisect_right(self._group_starts, first_row) - 1
            batches = self._parquet.iter_batches(
                batch_size=batch_rows, row_groups=[group], columns=list(columns), use_threads=False
            )
            self._cursor = _Cursor(
                batches, self._group_starts[group], self._group_starts[group + 1]
            )
        return self._cursor.take(first_row, end)

    def confirm(self) -> None:
        """Make sure that nobody wrote into the file while it was read.

        On S3 every read names the etag; a file on a disk can be changed in place.
        """
        if not self._is_local:
            return
        head = self._store.head(self.planned.key)
        if head is None or head.etag != self.planned.etag:
            raise ObjectChangedError.of_object(
                self.planned.key, url=self._store.url, expected=self.planned.etag
            )

    def close(self) -> None:
        self._cursor = None
        self._opened.close()


def _native(file: BinaryIO) -> pa.OSFile:
    """Let Arrow read the file that is open, whatever has its name by now, without Python's help.

    Takes about half the time of a file object of Python's. A memory map would be quicker still,
    but a file cut short by somebody else would then end the process without a word.
    """
    return pa.OSFile(f"/dev/fd/{file.fileno()}", mode="r")


def _parquet(file: BinaryIO | pa.OSFile, *, is_local: bool) -> pq.ParquetFile:
    metadata = pq.read_metadata(file)
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    if not is_local and largest <= _LARGE_GROUP_BYTES:
        return pq.ParquetFile(file, metadata=metadata, pre_buffer=True)
    read_bytes = _LOCAL_READ_BYTES if is_local else _READ_BYTES
    return pq.ParquetFile(file, metadata=metadata, pre_buffer=False, buffer_size=read_bytes)


class _Cursor:
    """A row group that is decoded batch by batch, forwards only."""

    def __init__(self, batches: Iterator[pa.RecordBatch], first_row: int, end: int) -> None:
        self._batches = batches
        self._next_row = first_row
        self._end = end
        self._rest: pa.RecordBatch | None = None

    def can_reach(self, row: int) -> bool:
        return self._next_row <= row < self._end

    def take(self, first_row: int, end: int) -> pa.RecordBatch:
        while True:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            if batch is None:
                raise pa.ArrowInvalid(f"it ends before row {first_row}, which its footer promises")
            skipped = min(batch.num_rows, first_row - self._next_row)
            taken = batch.slice(skipped, end - first_row)
            self._next_row += skipped + taken.num_rows
            rest = batch.slice(skipped + taken.num_rows)
            self._rest = rest if rest.num_rows else None
            if taken.num_rows:
                return taken


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


@contextmanager
def _explaining(what: str) -> Iterator[None]:
    """Turn what Arrow says of a file into what a person can do."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        told = str(error).rstrip(".")
        raise JobError(
            f"{what} cannot be read as Parquet: {told}. Write the file again, or leave it out "
            "with a narrower --input."
        ) from error
