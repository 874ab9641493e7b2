"""Reading ranges of rows from files that store them in groups, each decoded from its start."""

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import accumulate
from typing import BinaryIO, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from tidegate.errors import JobError
from tidegate.objects.port import ObjectStore, StoreUnavailableError
from tidegate_batch.core.formats import NAMES, InputFormat
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.ports import ReadRows, Stores
from tidegate_batch.sources.unchanged import confirm, confirming


class GroupedFile(Protocol):
    """An open file."""

    @property
    def group_rows(self) -> Sequence[int]:
        """How many rows each group has, in order."""
        ...

    def batches(
        self, group: int, *, columns: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode a group from its start, in batches of at most so many rows."""
        ...


OpenGrouped: TypeAlias = Callable[[BinaryIO | pa.OSFile, bool], AbstractContextManager[GroupedFile]]
"""Opens a file for Arrow; told whether it lies on a disk of this machine."""


class GroupedReader:
    """Reads ranges of rows; the file of the last range stays open for the next.

    A file is decoded from the start of a group, so a range that begins where the last one
    ended costs nothing extra. For one thread at a time.
    """

    def __init__(self, stores: Stores, kind: InputFormat, open_grouped: OpenGrouped) -> None:
        self._stores = stores
        self._kind: InputFormat = kind
        self._open_grouped = open_grouped
        self._file: _OpenFile | None = None

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        """Yield a range of rows; batches are cut at the same rows whoever reads from where.

        Every row of a file that can be decoded is a good one.
        """
        file = self._opened(planned)
        end = first_row + rows
        with confirming(file.confirm, or_else=self.close):
            while first_row < end:
                what = f"{planned.source}, rows {first_row} to {end - 1}"
                with explaining(what, self._kind, file.remote):
                    batch = file.take(first_row, end, columns=columns.names, batch_rows=batch_rows)
                after = first_row + batch.num_rows
                yield ReadRows(batch=batch, row_index=np.arange(first_row, after))
                first_row = after

    def close(self) -> None:
        """Close the file that the last range was read from."""
        if self._file:
            self._file.close()
        self._file = None

    def _opened(self, planned: PlannedInput) -> "_OpenFile":
        if self._file is None or self._file.planned != planned:
            self.close()
            store = self._stores(planned.store)
            self._file = _OpenFile(planned, store, self._kind, self._open_grouped)
        return self._file


class _OpenFile:
    """One file and how far its rows have been decoded."""

    def __init__(
        self,
        planned: PlannedInput,
        store: ObjectStore,
        kind: InputFormat,
        open_grouped: OpenGrouped,
    ) -> None:
        self.planned = planned
        self._store = store
        is_local = store.local_path(planned.key) is not None
        with ExitStack() as opened:
            file = opened.enter_context(store.open(planned.key, etag=planned.etag))
            self.remote = None if is_local else RemoteFile(file)
            with explaining(planned.source, kind, self.remote):
                native = (
                    opened.enter_context(_native(file))
                    if self.remote is None
                    else cast("BinaryIO", self.remote)
                )
                self._grouped = opened.enter_context(open_grouped(native, is_local))
            self._opened = opened.pop_all()
        self._group_starts = [0, *accumulate(self._grouped.group_rows)]
        self._cursor: _Cursor | None = None

    def take(
        self, first_row: int, end: int, *, columns: Sequence[str], batch_rows: int
    ) -> pa.RecordBatch:
        """Return some rows from ``first_row`` on, at least one and none beyond ``end``."""
        if self._cursor is None or not self._cursor.can_reach(first_row):
            group = bisect_right(self._group_starts, first_row) - 1
            self._cursor = _Cursor(
                self._grouped.batches(group, columns=columns, batch_rows=batch_rows),
                self._group_starts[group],
                self._group_starts[group + 1],
            )
        return self._cursor.take(first_row, end)

    def confirm(self) -> None:
        """Make sure that nobody wrote into the file while it was read."""
        confirm(self._store, self.planned.key, self.planned.etag)

    def close(self) -> None:
        self._cursor = None
        self._opened.close()


def _native(file: BinaryIO) -> pa.OSFile:
    """Let Arrow read the file that is open, whatever has its name by now, without Python's help.

    Takes about half the time of a file object of Python's. A memory map would be quicker still,
    but a file cut short by somebody else would then end the process without a word.
    """
    return pa.OSFile(f"/dev/fd/{file.fileno()}", mode="r")


class _Cursor:
    """A group that is decoded batch by batch, forwards only."""

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


class RemoteFile(io.BufferedIOBase):
    """Remembers why the store did not let it be read, of which Arrow may keep no more than words.

    Whoever opened the file beneath closes it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: StoreUnavailableError | None = None

    def readable(self) -> bool:
        """As every file here."""
        return True

    def seekable(self) -> bool:
        """As every file here."""
        return True

    def tell(self) -> int:
        """The other's."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the other."""
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        """Read from the other."""
        try:
            return self._file.read(-1 if size is None else size)
        except StoreUnavailableError as error:
            self.failure = error
            raise


@contextmanager
def explaining(what: str, kind: InputFormat, remote: RemoteFile | None = None) -> Iterator[None]:
    """Turn what Arrow says of a file into what a person can do, unless its store is to blame."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if remote is not None and remote.failure is not None:
            raise remote.failure from error
        told = str(error).rstrip(".")
        raise JobError(
            f"{what} cannot be read as {NAMES[kind]}: {told}. Write the file again, or leave it "
            "out with a narrower --input."
        ) from error
