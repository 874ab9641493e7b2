"""Whatever was sampled: curves never fall, nothing is told beyond them, windows stay bounded."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.cap import Infeasible, compute_cap
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.ranks import quantile_rank
from tidegate_realtime.core.size_samples import KEPT, SizeSamples

ALLOWED = (1, 2, 4, 8, 16, 32)
took = st.one_of(st.integers(0, 10), st.integers(10**3, 10**11))
samples = st.lists(
    st.tuples(st.integers(1, 32), took, st.integers(0, 400 * NS_PER_SECOND)),
    min_size=1,
    max_size=150,
)
sizes_choice = st.sampled_from([None, ALLOWED, (3, 7, 32)])


def learned(
    observed: list[tuple[int, int, int]], sizes: tuple[int, ...] | None, percentile: float
) -> LatencyModel:
    model = LatencyModel(percentile=percentile, sizes=sizes)
    now_ns = 0
    for rows, took_ns, passed_ns in observed:
        now_ns += passed_ns
        model.observe(rows, took_ns, Nanoseconds(now_ns))
    return model


@given(samples, sizes_choice, st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_more_rows_never_take_less_time(
    observed: list[tuple[int, int, int]], sizes: tuple[int, ...] | None, percentile: float
) -> None:
    model = learned(observed, sizes, percentile)
    rows = range(1, model.largest_size + 1)
    for curve in (model.mean_ns, model.tail_ns):
        times = [curve(b) for b in rows]
        assert times[0] >= 1
        assert all(a <= b for a, b in pairwise(times))
    assert all(model.std_ns(b) >= 0 for b in rows)


@given(samples, sizes_choice)
def test_nothing_is_told_beyond_the_largest_size_that_ran(
    observed: list[tuple[int, int, int]], sizes: tuple[int, ...] | None
) -> None:
    model = learned(observed, sizes, 0.99)
    most = max(rows for rows, _, _ in observed)
    largest = most if sizes is None else next(size for size in sizes if size >= most)
    assert model.largest_size == largest == model.sizes[-1]
    assert model.size_for(most) == largest
    with pytest.raises(ValueError, match="nothing is known"):
        model.tail_ns(largest + 1)


@given(samples, sizes_choice)
def test_rows_that_are_padded_to_one_size_take_the_same_time(
    observed: list[tuple[int, int, int]], sizes: tuple[int, ...] | None
) -> None:
    model = learned(observed, sizes, 0.99)
    for rows in range(1, model.largest_size + 1):
        size = model.size_for(rows)
        assert rows <= size
        assert model.mean_ns(rows) == model.mean_ns(size)
        assert model.tail_ns(rows) == model.tail_ns(size)
        assert model.rest_ns(rows, 0) >= 1


@given(
    samples,
    sizes_choice,
    st.integers(0, 10**12),
    st.integers(0, 10**9),
    st.integers(1, 8),
    st.one_of(st.none(), st.integers(3, 40)),
)
def test_the_cap_is_the_largest_size_within_every_bound(
    observed: list[tuple[int, int, int]],
    sizes: tuple[int, ...] | None,
    objective_ns: int,
    overhead_ns: int,
    executors: int,
    memory_rows: int | None,
) -> None:
    model = learned(observed, sizes, 0.99)
    cap = compute_cap(
        model,
        objective_ns=Nanoseconds(objective_ns),
        overhead_ns=Nanoseconds(overhead_ns),
        executors=executors,
        memory_rows=memory_rows,
    )
    alone_ns = model.tail_ns(1) + overhead_ns
    if isinstance(cap, Infeasible):
        assert alone_ns > objective_ns
        return
    assert alone_ns <= objective_ns

    def late(b: int) -> bool:
        return (1 + executors) * model.tail_ns(b) > executors * (objective_ns - overhead_ns)

    def throughput(b: int) -> float:
        return b / model.mean_ns(b)

    best = max(map(throughput, model.sizes))
    fitting = [b for b in model.sizes if memory_rows is None or b <= memory_rows]
    ending = [b for b in fitting if model.mean_ns(b) + overhead_ns <= objective_ns]
    calm = [b for b in fitting if not late(b)]
    least = model.sizes[0]
    knee = min(b for b in model.sizes if throughput(b) >= 0.97 * best)
    assert cap.rows == min(max(ending, default=least), knee)
    assert cap.calm_rows == min(max(calm, default=least), cap.rows)
    assert (cap.warning is None) == (not late(1))


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 200)), min_size=1, max_size=600))
@settings(max_examples=50)
def test_a_window_of_samples_is_bounded_and_its_sums_are_those_of_its_samples(
    values: list[tuple[int, int]],
) -> None:
    samples = SizeSamples()
    now_ns = 0
    for value, passed_s in values:
        now_ns += passed_s * NS_PER_SECOND
        samples.add(value, Nanoseconds(now_ns))
        assert 1 <= len(samples) <= KEPT
    summary = samples.summary(0.99)
    rest = samples.rest_ns(0)
    assert rest == pytest.approx(summary.mean)
    assert summary.tail <= max(value for value, _ in values)
    samples.rescale(1.0, Nanoseconds(now_ns + 1))
    assert samples.summary(0.99).tail >= summary.tail


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=300),
    st.sampled_from([0.01, 0.5, 0.99]),
)
def test_a_rank_splits_values_as_its_quantile_must(values: list[int], percentile: float) -> None:
    quantile = sorted(values)[quantile_rank(percentile, len(values)) - 1]
    at_most = sum(value <= quantile for value in values)
    below = sum(value < quantile for value in values)
    assert below < percentile * len(values) + 1e-6 <= at_most + 2e-6


@given(samples, sizes_choice, st.integers(1, 7))
def test_to_be_asked_for_statistics_changes_nothing(
    observed: list[tuple[int, int, int]], sizes: tuple[int, ...] | None, every: int
) -> None:
    asked, alone = (LatencyModel(percentile=0.99, sizes=sizes) for _ in range(2))
    now_ns = 0
    for place, (rows, took_ns, passed_ns) in enumerate(observed):
        now_ns += passed_ns
        for model in (asked, alone):
            model.observe(rows, took_ns, Nanoseconds(now_ns))
        if place % every == 0:
            held = asked.statistics().samples_by_size
            assert sum(held.values()) <= place + 1
    assert asked.statistics() == alone.statistics()
    for rows in range(1, alone.largest_size + 1):
        assert asked.tail_ns(rows) == alone.tail_ns(rows)
        assert asked.mean_ns(rows) == alone.mean_ns(rows)
