"""Whether each key stands in the inputs once, for who joins the answers by it."""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegate_batch.core.errors import InputInvalidError, Problem
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.core.wording import counted
from tidegate_batch.pipeline.arrays import decoded
from tidegate_batch.ports import RowSource

_READ_ROWS: Final = 65_536
_AT: Final = "_tidegate_at"
_LISTED_KEYS: Final = 5


def refuse_duplicate_keys(
    key: Sequence[str], schema: pa.Schema, *, inputs: Sequence[PlannedInput], source: RowSource
) -> None:
    """Read the key of every row, and name those that more than one row has.

    All keys are in memory at once, each with eight bytes beside it. A row that cannot be read has
    none; of missing keys one is allowed, like of any other value.

    Args:
        key: The columns that name a row together.
        schema: Of the output, which says their types.
        inputs: All files.
        source: Reads them.

    Raises:
        InputInvalidError: Some keys stand there more than once.
    """
    starts = [0, *accumulate(planned.rows for planned in inputs)]
    columns = pa.schema([schema.field(name) for name in key])
    batches: list[pa.RecordBatch] = []
    with closing(source):
        for start, planned in zip(starts, inputs, strict=False):
            batches += _keys(planned, columns, source=source, start=start)
    if not batches:
        return
    counts = pa.Table.from_batches(batches).group_by(list(key))
    found = counts.aggregate([(_AT, "count"), (_AT, "min"), (_AT, "max")])
    twice = found.filter(pc.field(f"{_AT}_count") > 1)
    if twice.num_rows:
        raise InputInvalidError.of_problems(_problems(twice, key, inputs=inputs, starts=starts))


def _keys(
    planned: PlannedInput, columns: pa.Schema, *, source: RowSource, start: int
) -> list[pa.RecordBatch]:
    read = source.read(
        planned, first_row=0, rows=planned.rows, columns=columns, batch_rows=_READ_ROWS
    )
    keys = []
    for rows in read:
        values = [decoded(rows.batch.column(name)) for name in columns.names]
        at = pa.array(rows.row_index + start)
        keys.append(pa.RecordBatch.from_arrays([*values, at], names=[*columns.names, _AT]))
    return keys


def _problems(
    twice: pa.Table, key: Sequence[str], *, inputs: Sequence[PlannedInput], starts: Sequence[int]
) -> list[Problem]:
    def place(at: int) -> str:
        file = bisect_right(starts, at) - 1
        return f"row {at - starts[file]} of {inputs[file].source}"

    problems = []
    for row in twice.sort_by(f"{_AT}_min").slice(0, _LISTED_KEYS).to_pylist():
        first, last, count = (row[f"{_AT}_{name}"] for name in ("min", "max", "count"))
        named = ", ".join(f"{name}={row[name]!r}" for name in key)
        problems.append(
            Problem(
                where=inputs[bisect_right(starts, first) - 1].source,
                column=" and ".join(key),
                expected=f"one row with {named}",
                found=f"{count} rows, the first is {place(first)}, the last {place(last)}",
            )
        )
    if (more := twice.num_rows - _LISTED_KEYS) > 0:
        problem = Problem(
            where="all inputs",
            column=" and ".join(key),
            expected="each key once, for --unique-key",
            found=f"{counted(more, 'more key')} in several rows",
        )
        problems.append(problem)
    return problems
