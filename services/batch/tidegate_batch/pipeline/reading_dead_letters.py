"""Reading the dead letters that a job's commits name."""

import hashlib
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.objects.port import ObjectStore
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.records import Commit, DeadLetters, Plan
from tidegate_batch.pipeline.record import JobRecord

DeadRows: TypeAlias = dict[str, npt.NDArray[np.int64]]
"""By input file: which rows of it are dead letters, ``(rows,)``, in the order of the file."""


def read_dead_letters(store: ObjectStore, file: DeadLetters) -> pa.Table:
    """Read one chunk's dead letters.

    Raises:
        JobRecordError: They are gone, or not what was committed.
    """
    stored = store.get(file.key)
    if stored is None or hashlib.sha256(stored.body).hexdigest() != file.sha256:
        what = "is not the file that was committed: its digest differs" if stored else "is missing"
        raise JobRecordError(f"{file.key} in {store.url} {what}. Restore it from a backup.")
    table = pq.read_table(pa.BufferReader(stored.body))
    if table.num_rows != file.rows:
        raise JobRecordError(f"{file.key}: {table.num_rows} dead letters, {file.rows} committed")
    return table


def dead_rows(table: pa.Table) -> DeadRows:
    """Return where dead letters came from."""
    sources = np.asarray(table["_source"].to_pylist(), dtype=object)
    rows = table["_row_index"].to_numpy()
    return {str(source): rows[sources == source] for source in dict.fromkeys(sources)}


def committed_dead_letters(record: JobRecord, plan: Plan) -> Iterator[Commit]:
    """Yield the commits so far that have dead letters, in the order of the plan."""
    for commit in record.commits(plan):
        if commit is not None and commit.dead_letters is not None:
            yield commit
