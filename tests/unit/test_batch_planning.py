"""How inputs are cut into chunks."""

import pytest

from tidegate_batch.core.planning import Piece, PlannedChunk, RowGroup, plan_chunks


def groups(*rows: int, row_bytes: int = 8) -> list[RowGroup]:
    return [RowGroup(rows=count, size_bytes=count * row_bytes) for count in rows]


def cut(*files: list[RowGroup], rows: int = 100, size_bytes: int = 1 << 30) -> list[list[str]]:
    chunks = plan_chunks(files, chunk_rows=rows, chunk_bytes=size_bytes)
    return [[shown(piece) for piece in chunk.pieces] for chunk in chunks]


def shown(piece: Piece) -> str:
    return f"{piece.input}:{piece.first_row}+{piece.rows}"


def test_a_large_row_group_is_cut_into_equal_ranges() -> None:
    assert cut(groups(250)) == [["0:0+83"], ["0:83+83"], ["0:166+84"]]


def test_small_row_groups_that_follow_each_other_become_one_piece() -> None:
    assert cut(groups(30, 30, 30, 30)) == [["0:0+90"], ["0:90+30"]]


@pytest.mark.field_fault("B-32")
def test_many_small_files_are_gathered_into_few_chunks() -> None:
    files = [groups(7)] * 10_000
    chunks = plan_chunks(files, chunk_rows=20_000)
    assert len(chunks) == 4
    assert sum(chunk.rows for chunk in chunks) == 70_000


def test_a_chunk_holds_pieces_of_several_files_in_their_order() -> None:
    assert cut(groups(40), groups(40), groups(40)) == [["0:0+40", "1:0+40"], ["2:0+40"]]


def test_bytes_limit_a_chunk_before_rows_do() -> None:
    assert cut(groups(100, row_bytes=1000), size_bytes=40_000) == [
        ["0:0+33"],
        ["0:33+33"],
        ["0:66+34"],
    ]


@pytest.mark.field_fault("B-25")
def test_one_row_larger_than_a_chunk_may_be_is_a_chunk_of_its_own() -> None:
    files = groups(1, 1, row_bytes=50_000_000)
    assert cut(files, size_bytes=1_000_000) == [["0:0+1"], ["0:1+1"]]


def test_files_and_row_groups_without_rows_are_in_no_chunk() -> None:
    assert cut([], groups(0, 5, 0), []) == [["1:0+5"]]
    assert cut([]) == []


def test_chunks_are_numbered_by_their_place_and_count_their_rows() -> None:
    (first, second) = plan_chunks([groups(150)], chunk_rows=100)
    assert (first.chunk, second.chunk) == ("000000", "000001")
    assert isinstance(first, PlannedChunk)
    assert [first.rows, second.rows] == [75, 75]
