"""What a job will take, from a sample of it that was really scored."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from tidegate_batch.core.names import chunk_id
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.planning import Piece, PlannedChunk

LONGEST_CHUNK_S: Final = 60.0
"""What a chunk is meant to take at most: half of its lease."""
_PARTS: Final = 8
"""Chunks of the sample for each worker, and for each chunk of the job: enough for a spread."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the sample was, and what was seen."""

    rows: int
    bad_rows: int
    chunks: int
    seconds: float
    """Of scoring, the start of the workers excluded."""
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
    rows_per_s: float
    wall_s: float
    """Start and scoring; publishing comes on top, which copies no row through this machine."""
    wall_low_s: float
    wall_high_s: float
    peak_rss_bytes: int
    """Of all workers together, if each gets as large as the largest of the sample."""
    output_bytes: int
    advised_chunk_rows: int
    """``chunk_rows``, halved until a chunk takes at most a minute."""
    cost: Cost | None
    measured: Measured


def sample_chunks(
    chunks: Sequence[PlannedChunk], *, rows: int, size: int
) -> tuple[PlannedChunk, ...]:
    """Choose rows from all over a plan, as small chunks of their own, in input order.

    Args:
        chunks: The plan's.
        rows: About how many; all of them if there are no more.
        size: Most rows of a chunk of the sample.
    """
    count = min(len(chunks), -(-rows // size))
    if not count:
        return ()
    chosen = [chunks[place * len(chunks) // count] for place in range(count)]
    each = -(-rows // count)
    small = [pieces for chunk in chosen for pieces in _divided(_first(chunk, each), size)]
    return tuple(
        PlannedChunk(chunk=chunk_id(place), rows=sum(p.rows for p in pieces), pieces=tuple(pieces))
        for place, pieces in enumerate(small)
    )


def sample_size(rows_per_s: float, *, chunk_rows: int, seconds: float) -> int:
    """Return how large the chunks of a sample should be, so that each worker scores several.

    Args:
        rows_per_s: Of one worker, as far as is known.
        chunk_rows: Of the job's chunks; an eighth of it is the most.
        seconds: How long the sample may take.
    """
    return max(1, min(chunk_rows // _PARTS, int(rows_per_s * seconds / _PARTS)))


def _first(chunk: PlannedChunk, rows: int) -> list[Piece]:
    pieces: list[Piece] = []
    for piece in chunk.pieces:
        if rows <= 0:
            break
        pieces.append(msgspec.structs.replace(piece, rows=min(rows, piece.rows)))
        rows -= piece.rows
    return pieces


def _divided(pieces: Sequence[Piece], size: int) -> Iterator[list[Piece]]:
    """Cut rows into ranges of at most ``size``, none over the end of a file."""
    for piece in pieces:
        for first in range(0, piece.rows, size):
            yield [
                Piece(
                    input=piece.input,
                    first_row=piece.first_row + first,
                    rows=min(size, piece.rows - first),
                )
            ]


def advised_chunk_rows(chunk_rows: int, *, rows_per_s: float, workers: int) -> int:
    """Halve a chunk until one worker is expected to score it within a minute."""
    while chunk_rows > 1 and chunk_rows * workers / rows_per_s > LONGEST_CHUNK_S:
        chunk_rows = -(-chunk_rows // 2)
    return chunk_rows


def wall_range(outlook: Outlook, *, start_s: float) -> tuple[float, float, float]:
    """Return how long the whole takes, and the early and the late end of its range, in seconds.

    Without a spread the sample says nothing of the range: then half and twice are given, which
    claims little.
    """
    low_s = outlook.eta_s / 2 if outlook.eta_low_s is None else outlook.eta_low_s
    high_s = outlook.eta_s * 2 if outlook.eta_high_s is None else outlook.eta_high_s
    return start_s + outlook.eta_s, start_s + low_s, start_s + high_s
