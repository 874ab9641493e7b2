"""Files of every format as one source of rows; which it is, a file's name tells, or a person."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidegate.errors import JobError
from tidegate_batch.core.formats import INPUT_FORMATS, NAMES, InputFormat, endings_of, format_of
from tidegate_batch.core.planning import RowGroup
from tidegate_batch.core.records import PlannedInput
from tidegate_batch.core.wording import counted
from tidegate_batch.ports import FoundInput, InputShape, ReadRows, Stores
from tidegate_batch.sources.arrow import ArrowSource
from tidegate_batch.sources.delimited import Csv
from tidegate_batch.sources.finding import find_files
from tidegate_batch.sources.jsonl import JsonLines
from tidegate_batch.sources.parquet import ParquetSource
from tidegate_batch.sources.text import TextSource

_ALL_ENDINGS: Final = tuple(end for kind in INPUT_FORMATS for end in endings_of(kind))


class FileSource:
    """Reads ranges of rows; the file of the last range stays open for the next.

    For one thread at a time, but for ``describe`` and ``index``.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._sources: dict[InputFormat, ParquetSource | ArrowSource | TextSource] = {
            "parquet": ParquetSource(stores),
            "arrow": ArrowSource(stores),
            "jsonl": TextSource(stores, "jsonl", JsonLines()),
            "csv": TextSource(stores, "csv", Csv()),
        }
        self._reading: ParquetSource | ArrowSource | TextSource = self._sources["parquet"]

    def find(self, pattern: str, *, kind: InputFormat | None = None) -> list[FoundInput]:
        """List the files that a pattern means, each with its format; see ``find_files``."""
        endings = endings_of(kind) if kind else _ALL_ENDINGS
        found = find_files(pattern, suffix=endings, stores=self._stores)
        if kind:
            return [replace(file, format=kind) for file in found]
        named = [_named(file) for file in found]
        _refuse_mixture(named, pattern)
        return named

    def describe(self, found: FoundInput, *, wanted: pa.Schema) -> InputShape:
        """Read a file's own description of its columns; see the sources of each format."""
        return self._sources[found.format].describe(found, wanted=wanted)

    def index(self, found: FoundInput) -> tuple[RowGroup, ...]:
        """Say how many rows a file has, and where reading can begin."""
        return self._sources[found.format].index(found)

    def read(
        self,
        planned: PlannedInput,
        *,
        first_row: int,
        rows: int,
        columns: pa.Schema,
        batch_rows: int,
    ) -> Iterator[ReadRows]:
        """Yield a range of rows; only one file is open at a time."""
        source = self._sources[planned.format]
        if source is not self._reading:
            self.close()
            self._reading = source
        return source.read(
            planned, first_row=first_row, rows=rows, columns=columns, batch_rows=batch_rows
        )

    def close(self) -> None:
        """Close the file that the last range was read from."""
        self._reading.close()


def _named(file: FoundInput) -> FoundInput:
    kind = format_of(file.key)
    if kind is None:
        raise JobError(
            f"the name of {file.source} says no format. Say it with --input-format, one of "
            f"{', '.join(INPUT_FORMATS)}, or give the file one of the endings "
            f"{', '.join(_ALL_ENDINGS)}."
        )
    return replace(file, format=kind)


def _refuse_mixture(files: Sequence[FoundInput], pattern: str) -> None:
    """Take files of one format from one pattern: others beside them are rarely meant."""
    counts = Counter(file.format for file in files)
    if len(counts) > 1:
        found = " and ".join(
            f"{counted(count, f'{NAMES[kind]} file')}" for kind, count in sorted(counts.items())
        )
        raise JobError(
            f"{pattern} means {found}. Say which with a glob such as "
            f"'*{endings_of(files[0].format)[0]}' or with --input-format; each may be an --input "
            "of its own."
        )
