"""Text files as a source of rows: looked at, counted once when the job is planned, read by range.

Nothing in such a file says how many rows it has, or where one begins: the plan keeps marks, and
reading seeks to the last one before the rows that are wanted.
"""

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final, cast

import pyarrow as pa

from tidegate.errors import JobError
from tidegate.objects.port import ObjectStore
from tidegate_batch.core.formats import COMPRESSED, InputFormat
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.ports import FoundInput, InputShape, ReadRows, Stores
from tidegate_batch.sources.dialect import Dialect, Heading, UnreadableRowsError, read_rows
from tidegate_batch.sources.lines import NO_ENDS, RowCutter, Rows
from tidegate_batch.sources.unchanged import confirm, confirming

_SAMPLE_ROWS: Final = 1000
"""Looked at when a job is planned: enough to see a wrong type, and a millisecond or two."""
_SAMPLE_BYTES: Final = 1 << 20
_GROUP_ROWS: Final = 1000
"""Between two places where reading can begin: the default chunk has twenty times as many."""
_GROUP_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 8 << 20
"""Most text that is parsed at a time, but for a single row."""


class TextSource:
    """Reads ranges of rows; the file of the last range stays open for the next.

    A range that begins where the last one ended goes on there. For one thread at a time.
    """

    def __init__(self, stores: Stores, kind: InputFormat, dialect: Dialect) -> None:
        self._stores = stores
        self._kind = kind
        self._dialect = dialect
        self._file: _OpenText | None = None

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        """Tell the columns from the first rows; if these are all, the rows are counted as well."""
        with self._reading(found) as (heading, cutter):
            rows = cutter.take(_SAMPLE_ROWS, _SAMPLE_BYTES) or _no_rows(heading)
            seen = self._dialect.observe(rows, heading, wanted)
            is_all = cutter.take(1, 1) is None
        groups = None
        if is_all:
            groups = _without_blank_end([_grouped(rows)])
            confirm(self._stores(found.store), found.key, found.etag)
        return InputShape(schema=seen.schema, row_groups=groups, unreadable=seen.unreadable)

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        """Read the whole file once, and note every thousand rows where they begin.

        Blank lines after the last row are none.
        """
        with self._reading(found) as (_, cutter):
            take = partial(cutter.take, _GROUP_ROWS, _GROUP_BYTES)
            groups = _without_blank_end([_grouped(rows) for rows in iter(take, None)])
        confirm(self._stores(found.store), found.key, found.etag)
        return groups

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        """Yield a range of rows; they are cut into batches by rows and bytes from its start on."""
        file = self._file_of(planned)
        end = first_row + rows
        with confirming(file.confirm, or_else=self.close):
            file.move_to(first_row)
            while first_row < end:
                with self._explaining(f"{planned.source}, rows {first_row} to {end - 1}"):
                    read = file.take(min(batch_rows, end - first_row), columns)
                first_row += read.batch.num_rows + len(read.bad)
                yield read

    def close(self) -> None:
        """Close the file that the last range was read from."""
        if self._file:
            self._file.close()
        self._file = None

    def _file_of(self, planned: PlannedInput) -> "_OpenText":
        if self._file is None or self._file.planned != planned:
            self.close()
            with ExitStack() as stack:
                store = self._stores(planned.store)
                opened = self._opened(planned.store, planned.key, planned.etag)
                file = stack.enter_context(opened)
                with self._explaining(planned.source):
                    heading = self._dialect.heading(file)
                self._file = _OpenText(planned, store, self._dialect, heading, file)
                self._file.closing.push(stack.pop_all())
        return self._file

    @contextmanager
    def _reading(self, found: FoundInput) -> Iterator[tuple[Heading, RowCutter]]:
        with (
            self._opened(found.store, found.key, found.etag) as file,
            self._explaining(found.source),
        ):
            heading = self._dialect.heading(file)
            yield heading, RowCutter(file, self._dialect.find_ends, at=heading.first)

    @contextmanager
    def _opened(self, store: str, key: str, etag: str) -> Iterator[BinaryIO]:
        with self._stores(store).open(key, etag=etag) as file:
            if key.lower().endswith(COMPRESSED):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast("BinaryIO", unpacked)
            else:
                yield file

    @contextmanager
    def _explaining(self, what: str) -> Iterator[None]:
        """Turn what is said of a file into what a person can do."""
        try:
            yield
        except (UnreadableRowsError, EOFError, OSError, zlib.error) as error:
            told = str(error).rstrip(".")
            raise JobError(
                f"{what} cannot be read as {self._dialect.name}: {told}. Write the file again, or "
                "leave it out with a narrower --input."
            ) from error


class _OpenText:
    """One file and how far its rows have been read."""

    def __init__(
        self,
        planned: PlannedInput,
        store: ObjectStore,
        dialect: Dialect,
        heading: Heading,
        file: BinaryIO,
    ) -> None:
        self.planned = planned
        self.closing = ExitStack()
        self._store = store
        self._dialect = dialect
        self._heading = heading
        self._file = file
        self._marks = (heading.first, *planned.marks)
        self._rows = [mark.row for mark in self._marks]
        self._cutter: RowCutter | None = None

    def move_to(self, row: int) -> None:
        """Go on from where reading is, or from the last mark, whichever is nearer."""
        mark = self._marks[bisect_right(self._rows, row) - 1]
        if self._cutter is None or not mark.row <= self._cutter.row <= row:
            self._cutter = RowCutter(self._file, self._dialect.find_ends, at=mark)
        self._cutter.skip(row - self._cutter.row)

    def take(self, most_rows: int, columns: pa.Schema) -> ReadRows:
        """Read the next rows, at least one, good ones and bad ones."""
        assert self._cutter is not None, "reading moves to its first row"
        rows = self._cutter.take(most_rows, _BATCH_BYTES)
        if rows is None:
            raise UnreadableRowsError(f"it ends before row {self._cutter.row}, which was counted")

        def parse(some: Rows, fields: pa.Schema) -> pa.RecordBatch:
            return self._dialect.parse(some, self._heading, fields)

        return read_rows(rows, parse, columns)

    def confirm(self) -> None:
        """Make sure that nobody wrote into the file while it was read."""
        confirm(self._store, self.planned.key, self.planned.etag)

    def close(self) -> None:
        """Close the file."""
        self._cutter = None
        self.closing.close()


def _no_rows(heading: Heading) -> Rows:
    return Rows(content=b"", ends=NO_ENDS, start=heading.first)


def _grouped(rows: Rows) -> tuple[RowGroup, int]:
    """Return rows as a group, and how many at its end are blank."""
    blank = 0
    while blank < len(rows) and not rows.row(len(rows) - 1 - blank).strip():
        blank += 1
    group = RowGroup(rows=len(rows), size_bytes=len(rows.content), start=rows.start)
    return group, blank


def _without_blank_end(groups: list[tuple[RowGroup, int]]) -> tuple[RowGroup, ...]:
    while groups and groups[-1][0].rows == groups[-1][1]:
        groups.pop()
    kept = [group for group, _ in groups]
    if kept and (blank := groups[-1][1]):
        kept[-1] = replace(kept[-1], rows=kept[-1].rows - blank)
    return tuple(kept)
