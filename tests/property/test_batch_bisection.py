"""Whichever rows fail, each is found, every other is answered, and no run is for nothing."""

from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st

from tidegate_batch.core.bisection import Bisection, Part

batches = st.integers(0, 300).flatmap(
    lambda rows: st.tuples(
        st.just(rows), st.sets(st.integers(0, max(0, rows - 1)), max_size=rows), st.integers(1, 400)
    )
)


def rows_of(part: Part) -> set[int]:
    return set(range(part.first, part.first + part.rows))


@given(batches)
def test_exactly_the_bad_rows_fail_alone_and_all_others_are_answered_in_order(
    batch: tuple[int, set[int], int],
) -> None:
    rows, bad, most_rows = batch
    bisection = Bisection(rows=rows, most_rows=most_rows)
    ended: list[int] = []
    failed: set[int] = set()
    while (part := bisection.take()) is not None:
        assert 1 <= part.rows <= most_rows
        if not rows_of(part) & bad:
            ended += sorted(rows_of(part))
        elif bisection.on_failed(part):
            ended.append(part.first)
            failed.add(part.first)
    assert failed == bad
    assert ended == list(range(rows))


@given(batches)
def test_the_runs_grow_with_the_bad_rows_and_not_with_the_square_of_the_batch(
    batch: tuple[int, set[int], int],
) -> None:
    rows, bad, _ = batch
    bisection = Bisection(rows=rows, most_rows=max(1, rows))
    runs = 0
    while (part := bisection.take()) is not None:
        runs += 1
        if rows_of(part) & bad:
            bisection.on_failed(part)
    if rows:
        assert runs <= min(2 * rows - 1, 1 + 2 * len(bad) * ceil(log2(max(rows, 2))))


@given(st.integers(1, 300), st.integers(1, 300))
def test_rows_that_only_fail_together_are_all_answered(rows: int, bearable: int) -> None:
    bisection = Bisection(rows=rows, most_rows=rows)
    answered: list[int] = []
    while (part := bisection.take()) is not None:
        if part.rows <= bearable:
            answered += sorted(rows_of(part))
        else:
            assert not bisection.on_failed(part), "a row alone never fails here"
    assert answered == list(range(rows))


@given(st.integers(1, 300), st.integers(1, 300))
def test_when_memory_runs_out_batches_are_halved_and_stay_as_small(rows: int, fits: int) -> None:
    bisection = Bisection(rows=rows, most_rows=rows)
    answered: list[int] = []
    shortages = 0
    while (part := bisection.take()) is not None:
        if part.rows > fits:
            shortages += 1
            assert not bisection.on_out_of_memory(part)
            assert bisection.most_rows == part.rows // 2
        else:
            answered += sorted(rows_of(part))
    assert answered == list(range(rows))
    assert shortages <= ceil(log2(max(2, rows))), "what was too much once is not tried again"
    if shortages:
        assert fits // 2 <= bisection.most_rows <= fits, "halved, and no more than that"


def test_a_row_that_does_not_fit_alone_is_said_so_and_not_halved_for_ever() -> None:
    bisection = Bisection(rows=1, most_rows=8)
    part = bisection.take()
    assert part is not None
    assert bisection.on_out_of_memory(part)
    assert bisection.take() is None
