"""A store that throttles while a group of rows is read: the group is decoded anew."""

import io
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.batch_jobs import table
from tests.fixtures.row_files import found_at, planned, read
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.port import StoreBusyError
from tidegate_batch.sources.files import FileSource


def write(rows: pa.Table, file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(rows, file)
        return
    with pa.OSFile(str(file), "wb") as stream, pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=40)


class Throttled(io.BytesIO):
    """Throttles one read."""

    def __init__(self, content: bytes, *, at: int) -> None:
        super().__init__(content)
        self.reads_until = at

    def read(self, size: int | None = -1) -> bytes:
        self.reads_until -= 1
        if self.reads_until == -1:
            raise StoreBusyError("503 SlowDown, on purpose")
        return super().read(size)


class ThrottledStore(LocalObjectStore):
    """Throttles one read of the first file that it opens, none of the others."""

    def __init__(self, root: Path, *, at: int) -> None:
        super().__init__(root)
        self.at = at

    def local_path(self, key: str) -> Path:
        """Have it read as if it were far away."""
        return cast("Path", None)

    def open(self, key: str, *, etag: str) -> BinaryIO:
        with super().open(key, etag=etag) as file:
            at, self.at = self.at, -1
            return Throttled(file.read(), at=at)


@pytest.mark.field_fault("B-33")
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_throttled_read_of_a_group_costs_a_second_try_and_no_more(
    tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"rows{ending}"
    write(table(range(95)), file)
    plan = planned(found_at(file))
    columns = table([]).select(["id", "a"]).schema
    throttled = 0
    while True:
        store = ThrottledStore(tmp_path, at=throttled)
        with closing(FileSource(lambda _, store=store: store)) as source:  # type: ignore[misc] # of this turn
            try:
                read(source, plan, columns, batch_rows=7)
            except StoreBusyError:
                throttled += 1
            else:
                break
            good, _ = read(source, plan, columns, batch_rows=7)
        assert [row["id"] for row in good] == list(range(95))
    assert throttled > 1, "the footer and a group"
