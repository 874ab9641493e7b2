"""Whatever the files look like, every row is in exactly one chunk, and no chunk is too large."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate_batch.core.planning import RowGroup, plan_chunks

row_groups = st.builds(RowGroup, rows=st.integers(0, 300), size_bytes=st.integers(0, 20_000))
inputs = st.lists(st.lists(row_groups, max_size=5), max_size=6)


@given(inputs, st.integers(1, 120), st.integers(1, 5_000))
def test_every_row_is_in_exactly_one_chunk_and_in_order(
    files: list[list[RowGroup]], chunk_rows: int, chunk_bytes: int
) -> None:
    chunks = plan_chunks(files, chunk_rows=chunk_rows, chunk_bytes=chunk_bytes)
    planned = [
        (piece.input, piece.first_row + offset)
        for chunk in chunks
        for piece in chunk.pieces
        for offset in range(piece.rows)
    ]
    rows = [
        (index, row)
        for index, groups in enumerate(files)
        for row in range(sum(group.rows for group in groups))
    ]
    assert planned == rows


@given(inputs, st.integers(1, 120))
def test_no_chunk_has_more_rows_than_it_may_and_none_is_empty(
    files: list[list[RowGroup]], chunk_rows: int
) -> None:
    for chunk in plan_chunks(files, chunk_rows=chunk_rows):
        assert 1 <= chunk.rows <= chunk_rows
        assert chunk.rows == sum(piece.rows for piece in chunk.pieces)
        assert all(piece.rows >= 1 for piece in chunk.pieces)


@given(st.integers(1, 500), st.integers(1, 1000), st.integers(1, 50_000))
def test_only_a_single_row_may_be_larger_than_a_chunk(
    rows: int, row_bytes: int, chunk_bytes: int
) -> None:
    file = [RowGroup(rows=rows, size_bytes=rows * row_bytes)]
    for chunk in plan_chunks([file], chunk_rows=rows, chunk_bytes=chunk_bytes):
        assert chunk.rows * row_bytes <= chunk_bytes or chunk.rows == 1
