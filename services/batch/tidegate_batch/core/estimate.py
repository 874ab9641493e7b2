"""What a job will take, from a sample of it that was really scored."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import sqrt
from typing import Final

import msgspec

from tidegate_batch.core.names import chunk_id
from tidegate_batch.core.planning import Piece, PlannedChunk

LONGEST_CHUNK_S: Final = 60.0
"""What a chunk is meant to take at most: half of its lease."""
_LADDER: Final = (64, 256, 1024, 4096)
"""Rows of the short chunks of a sample; the first of each worker warms it up and is not counted."""
_LEAST_ERROR: Final = 0.1
_MOST_ERROR: Final = 0.8


class BadRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the sample that could not be scored, for one reason."""

    code: str
    rows: int
    first: str
    """Where the first of them stands, and what is wrong with it."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the sample was, and what was seen."""

    rows: int
    bad_rows: int
    bad: tuple[BadRows, ...]
    """By reason, the most frequent first; of the first chunk of each worker as well."""
    chunks: int
    """Short ones first, then whole ones."""
    seconds: float
    """Of all workers together, the first chunk of each excluded."""
    start_s: float
    """From the start of the workers to their first chunk."""
    workers: int
    threads: int
    """That the model used in each of them."""
    output_bytes: int
    peak_rss_bytes: int
    """Of the largest worker."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars for the whole job, and what they follow from."""

    usd_low: Decimal
    """At the lowest spot price and the early end."""
    usd_high: Decimal
    """On demand, at the late end."""
    instance: str
    region: str
    share: float
    """Of such a machine, by its cores; 1 where its cores are not known."""
    usd_per_hour_low: Decimal
    usd_per_hour_high: Decimal
    source: str
    taken_on: str
    age_days: int


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``tidegate batch estimate``; also its JSON."""

    model: str
    rows: int
    files: int
    chunks: int
    chunk_rows: int
    """Of the longest chunk."""
    rows_per_s: float
    wall_s: float
    """Start and scoring; publishing comes on top, which copies no row through this machine."""
    wall_low_s: float
    wall_high_s: float
    peak_rss_bytes: int
    """Of all workers together, if each gets as large as the largest of the sample."""
    output_bytes: int
    too_many_bad_rows: bool
    """If all rows are like the sample, the job fails by its ``max_bad_rows``."""
    advised_chunk_rows: int
    """``chunk_rows``, halved until a chunk takes at most a minute."""
    cost: Cost | None
    measured: Measured


def sample_chunks(
    chunks: Sequence[PlannedChunk], *, workers: int, rows: int
) -> tuple[PlannedChunk, ...]:
    """Choose chunks from all over a plan: for each worker a few short ones, then whole ones.

    Short ones come first, so that a model that is too slow for a whole chunk within the time is
    measured all the same; two lengths and more tell what a chunk costs from what its rows do.

    Args:
        chunks: The plan's.
        workers: How many score at once.
        rows: About how many in whole chunks.

    Returns:
        Chunks with names of their own; no row is in two of them.
    """
    longest = max((chunk.rows for chunk in chunks), default=1)
    lengths = [length for length in _LADDER for _ in range(workers) if length < longest]
    lengths += [longest] * max(-(-rows // longest), workers)
    taken = [0] * len(chunks)
    cut = []
    for place, length in enumerate(lengths if chunks else ()):
        index = place * len(chunks) // len(lengths)
        pieces = list(_rows(chunks[index], first=taken[index], rows=length))
        taken[index] += length
        cut += [pieces] if pieces else []
    return tuple(
        PlannedChunk(chunk=chunk_id(place), rows=sum(p.rows for p in pieces), pieces=tuple(pieces))
        for place, pieces in enumerate(cut)
    )


def _rows(chunk: PlannedChunk, *, first: int, rows: int) -> Iterator[Piece]:
    """Yield so many rows of a chunk from one of them on, or what is left of it."""
    for piece in chunk.pieces:
        skipped = min(first, piece.rows)
        kept = min(rows, piece.rows - skipped)
        if kept > 0:
            yield Piece(input=piece.input, first_row=piece.first_row + skipped, rows=kept)
        first, rows = first - skipped, rows - kept


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk takes one worker while the others are at work: so much, and so much a row."""

    chunk_s: float
    row_s: float
    error: float
    """Twice the standard error of the sample's chunks around it, as a share; at least a tenth,
    for what a few seconds cannot see: caches, neighbours, files of another kind."""

    @classmethod
    def of(cls, chunks: Sequence[tuple[int, float]]) -> "Pace":
        """Fit rows and seconds of measured chunks, by least squares of the relative error.

        Args:
            chunks: Rows and seconds of each; at least one, all above 0.
        """
        chunk_s, row_s = _fitted(chunks)
        if chunk_s < 0 or row_s <= 0:  # too few lengths, or noise: rows alone
            chunk_s, row_s = 0.0, sum(s for _, s in chunks) / sum(rows for rows, _ in chunks)
        off = [seconds / (chunk_s + row_s * rows) - 1 for rows, seconds in chunks]
        spread = sqrt(sum(share**2 for share in off) / max(1, len(off) - 2))
        error = 2 * spread / sqrt(len(off))
        return cls(chunk_s=chunk_s, row_s=row_s, error=min(max(error, _LEAST_ERROR), _MOST_ERROR))

    def seconds(self, rows: int) -> float:
        """Return what a chunk of so many rows takes."""
        return self.chunk_s + self.row_s * rows


def _fitted(chunks: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return intercept and slope of the weighted regression, each chunk weighing 1/seconds²."""
    weights = [seconds**-2 for _, seconds in chunks]
    total = sum(weights)
    mean_rows = sum(w * rows for w, (rows, _) in zip(weights, chunks, strict=True)) / total
    mean_s = sum(w * s for w, (_, s) in zip(weights, chunks, strict=True)) / total
    spread = sum(w * (rows - mean_rows) ** 2 for w, (rows, _) in zip(weights, chunks, strict=True))
    if not spread:
        return 0.0, 0.0
    row_s = sum(
        w * (rows - mean_rows) * (s - mean_s) for w, (rows, s) in zip(weights, chunks, strict=True)
    )
    return mean_s - mean_rows * row_s / spread, row_s / spread


def advised_chunk_rows(chunk_rows: int, pace: Pace) -> int:
    """Halve a chunk until a worker is expected to score it within a minute.

    Args:
        chunk_rows: Of the longest chunk that there is.
        pace: What was measured.
    """
    while chunk_rows > 1 and pace.seconds(chunk_rows) > LONGEST_CHUNK_S:
        chunk_rows = -(-chunk_rows // 2)
    return chunk_rows


def scoring_s(chunks: Sequence[PlannedChunk], pace: Pace, *, workers: int) -> float:
    """Return how long the chunks take so many workers, none of which waits but at the end."""
    if not chunks:
        return 0.0
    mean_s = sum(pace.seconds(chunk.rows) for chunk in chunks) / len(chunks)
    return mean_s * -(-len(chunks) // workers)
