"""What a job will take: the sample is spread, and the answer follows from it."""

import pytest

from tidegate_batch.core.estimate import Pace, advised_chunk_rows, sample_chunks, scoring_s
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


def test_a_sample_has_short_chunks_first_then_whole_ones_from_all_over_the_input() -> None:
    sample = sample_chunks(plan(100_000), workers=2, rows=5000)
    taken = rows_of(sample)
    assert [chunk.rows for chunk in sample] == [64, 64, 256, 256, *[1000] * 5]
    assert len(taken) == len(set(taken))
    assert {row // 10_000 for _, row in taken} >= {0, 3, 5, 8}
    assert [chunk.chunk for chunk in sample] == [f"{place:06d}" for place in range(9)]


def test_a_single_chunk_is_cut_into_short_ones_and_the_rest() -> None:
    sample = sample_chunks(plan(569), workers=2, rows=40_000)
    assert [chunk.rows for chunk in sample] == [64, 64, 256, 185]
    assert rows_of(sample) == rows_of(plan(569))


@pytest.mark.parametrize("workers", [1, 3, 64])
def test_a_small_input_is_sampled_without_reading_a_row_twice(workers: int) -> None:
    sample = sample_chunks(plan(30, 40, 50), workers=workers, rows=5000)
    taken = rows_of(sample)
    assert taken
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(rows_of(plan(30, 40, 50)))


def test_a_sample_of_nothing_is_nothing() -> None:
    assert sample_chunks((), workers=2, rows=100) == ()


def test_what_a_chunk_costs_is_told_from_what_its_rows_do() -> None:
    pace = Pace.of([(64, 0.0164), (256, 0.0356), (1024, 0.1124)])
    assert pace.chunk_s == pytest.approx(0.01)
    assert pace.row_s == pytest.approx(0.0001)
    assert pace.seconds(20_000) == pytest.approx(2.01)
    assert pace.error == 0.1, "no sample of seconds knows more"


@pytest.mark.parametrize("chunks", [[(64, 0.5)], [(64, 0.5), (64, 0.6)], [(64, 0.5), (256, 0.4)]])
def test_where_lengths_do_not_tell_the_rows_bear_it_all(chunks: list[tuple[int, float]]) -> None:
    pace = Pace.of(chunks)
    assert pace.chunk_s == 0
    assert pace.row_s == sum(s for _, s in chunks) / sum(rows for rows, _ in chunks)
    assert 0.1 <= pace.error <= 0.8


def test_an_uneven_sample_has_a_wide_range() -> None:
    even = Pace.of([(64, 0.064), (128, 0.128), (256, 0.256), (512, 0.512)])
    uneven = Pace.of([(64, 0.05), (128, 0.16), (256, 0.2), (512, 0.8)])
    assert even.error == 0.1 < uneven.error


def test_a_chunk_is_halved_until_it_takes_at_most_a_minute() -> None:
    assert advised_chunk_rows(20_000, Pace(chunk_s=0, row_s=0.003, error=0.1)) == 20_000
    assert advised_chunk_rows(20_000, Pace(chunk_s=0, row_s=0.01, error=0.1)) == 5000
    assert advised_chunk_rows(20_000, Pace(chunk_s=99, row_s=0.01, error=0.1)) == 1


def test_workers_share_the_chunks_and_the_last_round_counts_whole() -> None:
    pace = Pace(chunk_s=0, row_s=0.001, error=0.1)
    assert scoring_s(plan(15_000), pace, workers=2) == pytest.approx(8)
    assert scoring_s(plan(16_000), pace, workers=2) == pytest.approx(8)
    assert scoring_s((), pace, workers=2) == 0
