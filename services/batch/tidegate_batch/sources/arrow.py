"""Arrow IPC files (``.arrow``, and ``.feather`` of version 2): their record batches are the groups.

A record batch is decoded as a whole: only of the columns that are read, but all of its rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

import pyarrow as pa

from tidegate.errors import JobError
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.ports import FoundInput, InputShape, Stores
from tidegate_batch.sources.grouped import GroupedFile, GroupedReader, RemoteFile, explaining

_MAGIC: Final = b"ARROW1"
_OLD_FEATHER: Final = b"FEA1"


class ArrowSource(GroupedReader):
    """Reads Arrow IPC files, record batch by record batch."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores, "arrow", _open_arrow)

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        """Read the schema; nothing is counted in it."""
        with self._stores(found.store).open(found.key, etag=found.etag) as file:
            _refuse_others(file.read(len(_MAGIC)), found.source)
            with explaining(found.source, "arrow"):
                return InputShape(schema=_reading(file).schema)

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        """Read how many rows each record batch has; bytes are shared out by rows."""
        with self._stores(found.store).open(found.key, etag=found.etag) as file:
            remote = RemoteFile(file)
            with explaining(found.source, "arrow", remote):
                counts = _group_rows(cast("BinaryIO", remote))
        total = max(1, sum(counts))
        return tuple(
            RowGroup(rows=rows, size_bytes=found.size_bytes * rows // total) for rows in counts
        )


class _Arrow:
    """An open Arrow IPC file."""

    def __init__(self, file: BinaryIO | pa.OSFile) -> None:
        self.group_rows = _group_rows(file)
        self._file = file
        self._readers: dict[tuple[str, ...], pa.RecordBatchFileReader] = {}

    def batches(
        self, group: int, *, columns: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        names = tuple(columns)
        reader = self._readers.get(names) or _reading(self._file, names)
        self._readers[names] = reader
        batch = reader.get_batch(group).select(list(columns))
        for first in range(0, batch.num_rows, batch_rows):
            yield batch.slice(first, batch_rows)


@contextmanager
def _open_arrow(file: BinaryIO | pa.OSFile, is_local: bool) -> Iterator[GroupedFile]:
    yield _Arrow(file)


def _reading(
    file: BinaryIO | pa.OSFile, columns: Sequence[str] | None = None
) -> pa.RecordBatchFileReader:
    """Open a file, if columns are named so that nothing but these is read from it."""
    native = cast("pa.NativeFile", file)  # the stubs do not know typing's files
    if columns is None:
        return pa.ipc.open_file(native)
    schema = _reading(file).schema
    places = [schema.get_field_index(name) for name in columns]
    return pa.ipc.open_file(native, options=pa.ipc.IpcReadOptions(included_fields=places))


def _group_rows(file: BinaryIO | pa.OSFile) -> list[int]:
    """Count rows by reading the narrowest column: a file's footer does not say."""
    schema = _reading(file).schema
    if not schema.names:
        return []
    narrowest = min(schema, key=lambda field: _width(field.type)).name
    reader = _reading(file, [narrowest])
    return [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)]


def _width(kind: pa.DataType) -> int:
    try:
        return kind.bit_width
    except ValueError:  # of no fixed width
        return 1 << 20


def _refuse_others(begin: bytes, source: str) -> None:
    if begin == _MAGIC:
        return
    told = "it is no Arrow IPC file"
    if begin.startswith(_OLD_FEATHER):
        told = "it is Feather of version 1; write version 2"
    if begin.startswith(b"\xff\xff\xff\xff"):
        told = "it is an Arrow stream; write it as a file (pyarrow.ipc.new_file)"
    raise JobError(f"{source} cannot be read as Arrow IPC: {told}.")
