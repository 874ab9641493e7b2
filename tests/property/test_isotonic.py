"""Fitted curves against a projection that tries everything."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_realtime.core.isotonic import Curve, fit_increasing

points = st.lists(
    st.tuples(st.floats(0, 1e6), st.floats(0.25, 256)),
    max_size=7,
)
knots = st.dictionaries(st.integers(1, 60), st.integers(1, 10**10), min_size=1, max_size=8)


def nearest_by_trying_all(values: list[float], weights: list[float]) -> list[float]:
    """Cut the sequence into runs in every possible way, and level each run.

    The nearest non-decreasing sequence is one of these: it is constant on runs, and each of its
    levels is the weighted mean of its run.
    """
    count = len(values)
    candidates = []
    for cuts in (c for n in range(count) for c in combinations(range(1, count), n)):
        fitted: list[float] = []
        for start, end in pairwise((0, *cuts, count)):
            total = sum(weights[start:end])
            mean = sum(v * w for v, w in zip(values[start:end], weights[start:end], strict=True))
            fitted += [mean / total] * (end - start)
        if all(a <= b + 1e-9 for a, b in pairwise(fitted)):
            errors = zip(values, fitted, weights, strict=True)
            candidates.append((sum(w * (v - f) ** 2 for v, f, w in errors), fitted))
    return min(candidates)[1] if candidates else []


@given(points)
def test_pooling_finds_the_nearest_sequence_that_does_not_fall(
    weighted: list[tuple[float, float]],
) -> None:
    values, weights = [v for v, _ in weighted], [w for _, w in weighted]
    fitted = fit_increasing(values, weights)
    assert fitted == pytest.approx(nearest_by_trying_all(values, weights), rel=1e-6, abs=1e-3)
    assert all(a <= b for a, b in pairwise(fitted))


@given(knots, st.permutations(range(1, 61)))
def test_a_curve_passes_its_knots_and_keeps_between_its_neighbours(
    points: dict[int, int], asked: list[int]
) -> None:
    sizes, values = sorted(points), sorted(points.values())
    curve = Curve(sizes, values)
    drawn = {rows: curve[rows] for rows in asked if rows <= sizes[-1]}  # in whatever order
    assert [drawn[size] for size in sizes] == values
    assert {drawn[rows] for rows in range(1, sizes[0])} <= {values[0]}
    assert all(drawn[rows] <= drawn[rows + 1] for rows in range(1, sizes[-1]))
    for (left, low), (right, high) in pairwise(zip(sizes, values, strict=True)):
        for size in range(left, right):
            exact = low + (high - low) * (size - left) / (right - left)
            assert drawn[size] == pytest.approx(exact, abs=1.01, rel=1e-12)


@pytest.mark.parametrize("rows", [-1, 0, 5, 1_000])
def test_beyond_its_knots_a_curve_has_no_points(rows: int) -> None:
    with pytest.raises(KeyError):
        Curve([2, 4], [10, 20])[rows]
    with pytest.raises(KeyError):
        Curve([], [])[rows]


def test_a_curve_is_scaled_and_then_whole_and_knows_padded_rows() -> None:
    curve = Curve([1, 4], [0.1, 20.4], factor=2.0, size_for=[1, 1, 2, 4, 4])
    assert [curve[rows] for rows in (4, 3, 2, 1)] == [41, 41, 14, 1]
