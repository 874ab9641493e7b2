"""What a job will take: the sample is spread, and the answer follows from it."""

import pytest

from tidegate_batch.core.estimate import (
    advised_chunk_rows,
    sample_chunks,
    sample_size,
    wall_range,
)
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.planning import PlannedChunk, RowGroup, plan_chunks


def plan(*files: int, chunk_rows: int = 1000) -> tuple[PlannedChunk, ...]:
    groups = [[RowGroup(rows=rows, size_bytes=0)] for rows in files]
    return plan_chunks(groups, chunk_rows=chunk_rows)


def rows_of(chunks: tuple[PlannedChunk, ...]) -> list[tuple[int, int]]:
    return [
        (piece.input, row)
        for chunk in chunks
        for piece in chunk.pieces
        for row in range(piece.first_row, piece.first_row + piece.rows)
    ]


def test_a_sample_is_taken_from_all_over_the_input_and_no_row_twice() -> None:
    sample = sample_chunks(plan(100_000), rows=2000, size=125)
    taken = rows_of(sample)
    assert len(sample) == 16
    assert len(taken) == len(set(taken)) == 2000
    assert {row // 10_000 for _, row in taken} >= {0, 3, 6, 9}
    assert [chunk.chunk for chunk in sample] == [f"{place:06d}" for place in range(16)]


@pytest.mark.parametrize("size", [1, 7, 1000, 5000])
def test_a_small_input_is_its_own_sample(size: int) -> None:
    sample = sample_chunks(plan(30, 40, 50), rows=5000, size=size)
    assert rows_of(sample) == rows_of(plan(30, 40, 50))
    assert all(chunk.rows == sum(piece.rows for piece in chunk.pieces) for chunk in sample)
    assert max(chunk.rows for chunk in sample) <= size


def test_a_sample_of_nothing_is_nothing() -> None:
    assert sample_chunks((), rows=100, size=10) == ()


def test_a_slow_model_gets_chunks_of_few_rows() -> None:
    assert sample_size(1e6, chunk_rows=20_000, seconds=5) == 2500
    assert sample_size(80, chunk_rows=20_000, seconds=5) == 50
    assert sample_size(0.01, chunk_rows=20_000, seconds=5) == 1
    assert sample_size(1e6, chunk_rows=1, seconds=5) == 1


def test_a_chunk_is_halved_until_it_takes_at_most_a_minute() -> None:
    assert advised_chunk_rows(20_000, rows_per_s=10_000, workers=2) == 20_000
    assert advised_chunk_rows(20_000, rows_per_s=200, workers=2) == 5000
    assert advised_chunk_rows(20_000, rows_per_s=1e-6, workers=1) == 1


def test_the_start_comes_on_top_and_an_unknown_spread_claims_little() -> None:
    known = Outlook(rows_per_s=10, eta_s=100, eta_low_s=90, eta_high_s=120)
    assert wall_range(known, start_s=2) == (102, 92, 122)
    assert wall_range(Outlook(rows_per_s=10, eta_s=100), start_s=2) == (102, 52, 202)
