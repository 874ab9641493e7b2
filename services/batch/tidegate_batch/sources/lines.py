"""Cutting a text file into rows, in blocks, with a bounded amount of it in memory.

A row is a line, or several where a quoted field holds the end of one. How rows end is told by a
function; what they mean is not decided here. Wherever reading begins, the same rows come out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate_batch.core.planning import Mark
from tidegate_batch.ports import MOST_LINE_CHARS, Line

Ends: TypeAlias = npt.NDArray[np.int64]
FindEnds: TypeAlias = Callable[[bytes, bool], Ends]
"""Given bytes that begin with a row, and whether the file ends with them, return where each row
that is whole ends, its line end included; the last row of a file needs none."""

MOST_ROW_BYTES: Final = 64 << 20
"""A longer row is a bad one: a file without line ends must not fill the memory."""
_BLOCK_BYTES: Final = 1 << 20
"""Read at a time: on a disk as quick as more, and a remote file is read ahead by its own."""
_NEWLINE: Final = 10
NO_ENDS: Final[Ends] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Successive rows as they stand in the file."""

    content: bytes
    ends: Ends
    """``(rows,)``: where in ``content`` each row ends, its line end included."""
    start: Mark
    """Where ``content`` begins."""
    shortened: tuple[tuple[int, int], ...] = ()
    """Rows that were too long, counted within the file, and the bytes that each has less here."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def longest_bytes(self) -> int:
        """The length of the longest row, its line end included."""
        return int(np.diff(self.ends, prepend=0).max())

    def row(self, place: int) -> bytes:
        """Return one row with its line end."""
        return self.content[self._begin(place) : int(self.ends[place])]

    def slice(self, first: int, end: int) -> "Rows":
        """Return the rows from ``first`` up to ``end``, which is not among them."""
        begin, stop, start = self._begin(first), int(self.ends[end - 1]), self.mark(first)
        return Rows(
            content=self.content[begin:stop],
            ends=self.ends[first:end] - begin,
            start=start,
            shortened=tuple(one for one in self.shortened if one[0] >= start.row),
        )

    def mark(self, place: int) -> Mark:
        """Return where a row begins; of the place behind the last row, where that one ends."""
        begin, row = self._begin(place), self.start.row + place
        lacking = sum(size_bytes for short, size_bytes in self.shortened if short < row)
        return Mark(
            row=row,
            line=self.start.line + self.content.count(b"\n", 0, begin),
            offset=self.start.offset + begin + lacking,
        )

    def line(self, place: int) -> Line:
        """Return where a row stands, and its text as far as it is kept."""
        kept = self.row(place)[: 4 * MOST_LINE_CHARS].rstrip(b"\r\n")
        return Line(
            number=self.mark(place).line,
            text=kept.decode("utf-8", errors="replace")[:MOST_LINE_CHARS],
        )

    def _begin(self, place: int) -> int:
        return int(self.ends[place - 1]) if place else 0


class RowCutter:
    """Reads forwards from a row's beginning, some rows at a time."""

    def __init__(
        self, file: BinaryIO, find_ends: FindEnds, *, at: Mark, most_row_bytes: int = MOST_ROW_BYTES
    ) -> None:
        file.seek(at.offset)
        self._file = file
        self._find_ends = find_ends
        self._most_row_bytes = most_row_bytes
        self._next = at
        self._content = b""
        self._begin = 0  # of the next row, in the content
        self._ends: Ends = NO_ENDS
        self._has_ended = False
        self._shortened: list[tuple[int, int]] = []

    @property
    def row(self) -> int:
        """The row that comes next, counted from 0 within the file."""
        return self._next.row

    def take(self, most_rows: int, most_bytes: int) -> Rows | None:
        """Return at least one row, at most so many, and more than one only within the bytes.

        Returns:
            ``None`` at the end of the file.
        """
        while not self._has_ended and not self._has(most_rows, most_bytes):
            self._fill()
        if not len(self._ends):
            return None
        limit = self._begin + most_bytes
        return self._cut(max(1, int(np.searchsorted(self._ends[:most_rows], limit, side="right"))))

    def skip(self, rows: int) -> None:
        """Pass over so many rows, or all that are left."""
        end = self.row + rows
        while self.row < end and self.take(end - self.row, _BLOCK_BYTES):
            pass

    def _has(self, rows: int, size_bytes: int) -> bool:
        enough = len(self._ends) >= rows
        return enough or bool(len(self._ends) and self._ends[-1] - self._begin > size_bytes)

    def _cut(self, rows: int) -> Rows:
        begin, end = self._begin, int(self._ends[rows - 1])
        cut = Rows(
            content=self._content[begin:end],
            ends=self._ends[:rows] - begin,
            start=self._next,
            shortened=tuple(one for one in self._shortened if one[0] < self.row + rows),
        )
        self._begin, self._ends, self._next = end, self._ends[rows:], cut.mark(rows)
        self._shortened = self._shortened[len(cut.shortened) :]
        return cut

    def _fill(self) -> None:
        """Read on, twice as much each time that a row goes on, so that looking again is cheap."""
        self._content = self._content[self._begin :]
        self._ends, self._begin = self._ends - self._begin, 0
        whole = int(self._ends[-1]) if len(self._ends) else 0
        block = self._file.read(max(_BLOCK_BYTES, len(self._content) - whole))
        self._has_ended = not block
        self._content += block
        ends = self._find_ends(self._content[whole:], self._has_ended)
        if not len(ends) and len(self._content) - whole > self._most_row_bytes:
            ends = self._shorten(whole)
        self._ends = np.concatenate([self._ends, ends + whole])

    def _shorten(self, begin: int) -> Ends:
        """Let a row that is too long end here, and drop the rest of its line.

        So much of it stays that anybody sees that it is too long.
        """
        kept = self._most_row_bytes
        dropped = len(self._content) - begin - kept - 1
        self._content = self._content[: begin + kept] + b"\n"
        while line := self._file.readline(_BLOCK_BYTES):
            dropped += len(line)
            if line.endswith(b"\n"):
                break
        self._shortened.append((self.row + len(self._ends), dropped))
        return np.array([kept + 1], dtype=np.int64)


def line_ends(content: bytes, is_last: bool) -> Ends:
    """Find the rows of a file in which each line is one."""
    found = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == _NEWLINE) + 1
    if is_last and content and not content.endswith(b"\n"):
        return np.append(found, len(content))
    return found
