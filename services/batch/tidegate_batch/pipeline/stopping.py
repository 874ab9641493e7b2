"""Stopping a driver in the midst of its inputs, which may take hours to look at."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from tidegate_batch.core.formats import InputFormat
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.ports import FoundInput, InputShape, ReadRows, RowSource


def stopped_by(check: Callable[[], None], parts: Parts) -> Parts:
    """Return parts whose files are read only as long as a driver may go on.

    Args:
        check: Raises once it may not; asked before each file, and before each batch of its rows.
        parts: Its own.
    """
    return replace(parts, source=_CheckedSource(parts.source, check))


class _CheckedSource:
    """A ``RowSource`` that asks before it goes on, from whichever thread."""

    def __init__(self, inner: RowSource, check: Callable[[], None]) -> None:
        self._inner = inner
        self._check = check

    def find(self, pattern: str, *, kind: InputFormat | None = None) -> list[FoundInput]:
        self._check()
        return self._inner.find(pattern, kind=kind)

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        self._check()
        return self._inner.describe(found, wanted=wanted)

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        self._check()
        return self._inner.index(found)

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        read = self._inner.read(
            planned, first_row=first_row, rows=rows, columns=columns, batch_rows=batch_rows
        )
        for batch in read:
            self._check()
            yield batch

    def close(self) -> None:
        self._inner.close()
