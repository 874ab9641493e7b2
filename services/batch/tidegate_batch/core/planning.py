"""Cutting inputs into chunks, from their row counts alone.

The plan depends neither on the engine nor on the number of workers, so every driver of a job
would make the same one. A chunk is read, scored and committed as a whole; after planning it is
never split, since two partial commits beside a whole one would double rows.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from tidegate_batch.core.names import ChunkId, chunk_id

DEFAULT_CHUNK_ROWS: Final = 20_000
"""A chunk of a small model takes well under a second, and 14 million rows make 700 commits."""
CHUNK_BYTES: Final = 64 << 20
"""Of input before compression; a worker holds about four times a chunk."""


class Piece(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Successive rows of one input file."""

    input: int
    """The file's place in the plan's list of inputs, counted from 0."""
    first_row: int
    """Counted from 0 within the file."""
    rows: int


class PlannedChunk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The unit of leasing, retry and commit."""

    chunk: str
    rows: int
    pieces: tuple[Piece, ...]
    """In input order; more than one where several small files make one chunk."""

    @property
    def id(self) -> ChunkId:
        """The chunk's name, typed."""
        return ChunkId(self.chunk)


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place in a text file where a row begins."""

    row: int
    """Counted from 0 within the file."""
    line: int
    """Counted from 1 within the file, a header included."""
    offset: int
    """In bytes, counted from 0; of a packed file, in what is unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Rows that a file stores together and that are cheapest to read together."""

    rows: int
    size_bytes: int
    """Before compression; 0 if unknown."""
    start: Mark | None = None
    """Where they begin; ``None`` for files that say so themselves."""


def plan_chunks(
    files: Sequence[Sequence[RowGroup]], *, chunk_rows: int, chunk_bytes: int = CHUNK_BYTES
) -> tuple[PlannedChunk, ...]:
    """Cut files into chunks of at most so many rows and bytes, whichever comes first.

    Small row groups, and small files, are gathered; a large row group is cut into equal ranges.
    Every row is in exactly one chunk, and only a chunk of a single row may exceed the bytes.

    Args:
        files: The row groups of each input file, in order.
        chunk_rows: At least 1.
        chunk_bytes: At least 1.

    Returns:
        The chunks in input order; none if there are no rows.
    """
    cut = _cut(files, chunk_rows=chunk_rows, chunk_bytes=chunk_bytes)
    return tuple(
        PlannedChunk(chunk=chunk_id(index), rows=sum(p.rows for p in pieces), pieces=tuple(pieces))
        for index, pieces in enumerate(cut)
    )


def marks_for(
    files: Sequence[Sequence[RowGroup]], chunks: Sequence[PlannedChunk]
) -> list[tuple[Mark, ...]]:
    """Choose the marks that reading the chunks needs: the last before each piece begins.

    Returns:
        For each file, in order, its marks in order; the beginning of a file needs none.
    """
    starts = [[group.start for group in groups if group.start] for groups in files]
    rows = [[mark.row for mark in marks] for marks in starts]
    chosen: list[dict[int, Mark]] = [{} for _ in files]
    for piece in (piece for chunk in chunks for piece in chunk.pieces):
        place = bisect_right(rows[piece.input], piece.first_row) - 1
        if place > 0:
            mark = starts[piece.input][place]
            chosen[piece.input][mark.row] = mark
    return [tuple(marks.values()) for marks in chosen]


def _cut(
    files: Sequence[Sequence[RowGroup]], *, chunk_rows: int, chunk_bytes: int
) -> Iterator[list[Piece]]:
    gathered: list[Piece] = []
    rows = size_bytes = 0
    for piece, group in _row_groups(files):
        over = rows + group.rows > chunk_rows or size_bytes + group.size_bytes > chunk_bytes
        if over and gathered:
            yield gathered
            gathered, rows, size_bytes = [], 0, 0
        limit = _row_limit(group, chunk_rows=chunk_rows, chunk_bytes=chunk_bytes)
        if group.rows > limit:
            yield from _split(piece, limit)
            continue
        _append(gathered, piece)
        rows, size_bytes = rows + group.rows, size_bytes + group.size_bytes
    if gathered:
        yield gathered


def _row_groups(files: Sequence[Sequence[RowGroup]]) -> Iterator[tuple[Piece, RowGroup]]:
    """Yield each row group that holds rows, with the rows that it is within its file."""
    for index, groups in enumerate(files):
        first_row = 0
        for group in groups:
            if group.rows:
                yield Piece(input=index, first_row=first_row, rows=group.rows), group
            first_row += group.rows


def _row_limit(group: RowGroup, *, chunk_rows: int, chunk_bytes: int) -> int:
    """Return how many rows of this group one chunk may have; at least one, however large."""
    if not group.size_bytes:
        return chunk_rows
    return min(chunk_rows, max(1, chunk_bytes * group.rows // group.size_bytes))


def _split(piece: Piece, limit: int) -> Iterator[list[Piece]]:
    """Cut into as few ranges as the limit allows, whose lengths differ by at most one row."""
    count = -(-piece.rows // limit)
    ends = [piece.rows * place // count for place in range(count + 1)]
    for first, end in pairwise(ends):
        yield [Piece(input=piece.input, first_row=piece.first_row + first, rows=end - first)]


def _append(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece, or lengthen the last one where the new one goes on."""
    if pieces and continues(pieces[-1], piece):
        last = pieces.pop()
        piece = Piece(input=last.input, first_row=last.first_row, rows=last.rows + piece.rows)
    pieces.append(piece)


def continues(before: Piece, after: Piece) -> bool:
    """Say whether ``after`` begins just where ``before`` ends, in the same file."""
    return after.input == before.input and after.first_row == before.first_row + before.rows
