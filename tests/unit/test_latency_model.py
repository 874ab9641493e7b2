"""What the model says after a few samples, exactly."""

import math

import pytest

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.size_samples import (
    AGED_AFTER_NS,
    KEPT,
    KEPT_AFTER_CHANGE,
    SizeSamples,
)

START = Nanoseconds(0)


def seen(
    *samples: tuple[int, int], sizes: tuple[int, ...] | None = None, percentile: float = 0.99
) -> LatencyModel:
    """A model after these samples: rows, nanoseconds."""
    model = LatencyModel(percentile=percentile, sizes=sizes)
    for rows, took_ns in samples:
        model.observe(rows, took_ns, START)
    return model


def tails(model: LatencyModel) -> list[int]:
    return [model.tail_ns(rows) for rows in range(1, model.largest_size + 1)]


def test_sizes_between_measured_ones_lie_on_a_straight_line() -> None:
    model = seen((2, 1_000), (6, 3_000), (7, 10_000))
    assert tails(model) == [1_000, 1_000, 1_500, 2_000, 2_500, 3_000, 10_000]
    assert [model.mean_ns(rows) for rows in range(1, 8)] == tails(model)


def test_a_batch_takes_the_time_of_the_size_that_it_is_padded_to() -> None:
    model = seen((1, 1_000), (3, 4_000), (8, 8_000), sizes=(1, 2, 4, 8, 16))
    assert tails(model) == [1_000, 2_000, 4_000, 4_000] + 4 * [8_000]
    assert [model.size_for(rows) for rows in (1, 2, 3, 5, 8)] == [1, 2, 4, 8, 8]
    assert list(model.sizes) == [1, 2, 4, 8]


@pytest.mark.parametrize("rows", [-1, 0, 9, 10_000])
@pytest.mark.parametrize("sizes", [None, (1, 2, 4, 8, 16)])
def test_nobody_is_told_a_time_that_was_not_measured(
    rows: int, sizes: tuple[int, ...] | None
) -> None:
    model = seen((1, 1_000), (8, 8_000), sizes=sizes)
    for ask in (model.mean_ns, model.std_ns, model.tail_ns, model.size_for):
        with pytest.raises(ValueError, match=f"nothing is known of {rows} rows: sizes 1 to 8 were"):
            ask(rows)
    with pytest.raises(ValueError, match="nothing is known"):
        model.rest_ns(rows, 0)


def test_a_batch_of_no_allowed_size_is_a_bug() -> None:
    with pytest.raises(ValueError, match=r"a batch of 5 rows fits no allowed size: \(1, 4\)"):
        seen((5, 1_000), sizes=(1, 4))
    with pytest.raises(ValueError, match="a batch of 0 rows"):
        seen((0, 1_000))


@pytest.mark.parametrize("sizes", [(), (0, 1), (2, 2), (4, 2)])
def test_sizes_must_increase(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must increase strictly"):
        LatencyModel(percentile=0.99, sizes=sizes)


@pytest.mark.parametrize("percentile", [0, 1, 99])
def test_a_percentile_is_a_share(percentile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        LatencyModel(percentile=percentile, sizes=None)


def test_with_few_samples_the_tail_is_at_least_the_largest() -> None:
    assert seen((1, 1_000), (1, 3_000), (1, 2_000)).tail_ns(1) >= 3_000


def test_a_size_with_few_samples_borrows_the_tail_of_the_others() -> None:
    model = LatencyModel(percentile=0.9, sizes=None)
    for i in range(400):  # one in five takes half as long again, so that the p90 does
        model.observe(1, 1_500 if i % 5 == 0 else 1_000, START)
    model.observe(2, 2_000, START)
    assert model.tail_ns(1) == pytest.approx(1_500, rel=0.02)
    assert model.tail_ns(2) == pytest.approx(2_000 * 1_500 / 1_100, rel=0.02)
    assert model.std_ns(2) == pytest.approx(2_000 * 200 / 1_100, rel=0.02)


def test_with_many_samples_a_single_stall_is_no_tail() -> None:
    model = seen(*((4, 1_000) for _ in range(200)), (4, 100_000))
    assert model.tail_ns(4) == model.mean_ns(4) < 3_000  # and nothing is promised below the mean


def test_deviations_are_those_of_one_batch() -> None:
    model = seen(*((1, 900 if i % 2 else 1_100) for i in range(256)))
    assert model.mean_ns(1) == pytest.approx(1_000, rel=0.01)
    assert model.std_ns(1) == pytest.approx(100, rel=0.01)


def test_a_slower_small_size_is_pooled_with_the_larger_one() -> None:
    model = seen((1, 3_000), (2, 1_000), (2, 1_000), (4, 5_000))
    assert model.mean_ns(1) == model.mean_ns(2) == pytest.approx(5_000 / 3, rel=0.01)


def test_a_coarse_clock_that_sees_no_time_pass_is_survived() -> None:
    assert seen((1, 0), (1, 0)).tail_ns(1) >= 1


def test_a_revision_is_a_promise_that_moved_by_5_percent() -> None:
    model = seen(*((1, 1_000_000) for _ in range(64)))
    before = model.revision
    for _ in range(64):
        model.observe(1, 1_020_000, START)
    assert model.revision == before
    for _ in range(64):
        model.observe(1, 1_080_000, START)
    moved = model.revision
    assert moved > before
    model.observe(2, 2_000_000, START)
    assert model.revision == moved + 1


def test_a_call_within_its_promise_teaches_nothing_while_it_runs() -> None:
    model = seen((4, 1_000), (4, 1_000))
    model.observe_running(4, 1_000, START)
    assert model.statistics().samples_by_size == {4: 2}
    model.observe_running(4, 3_000, START)
    assert model.statistics().samples_by_size == {4: 3}
    assert model.tail_ns(4) >= 3_000


def test_the_rest_of_a_call_is_told_by_those_that_took_longer() -> None:
    model = seen(*((1, 1_000 * (1 + i % 4)) for i in range(400)))
    factor = model.mean_ns(1) / 2_500
    assert factor == pytest.approx(1, rel=0.01)
    assert model.rest_ns(1, 0) == pytest.approx(2_500 * factor, abs=1)
    assert model.rest_ns(1, 2_500) == pytest.approx(3_500 * factor - 2_500, abs=2)
    assert model.rest_ns(1, 4_100) == model.tail_ns(1)


def slowed(ratio: float) -> LatencyModel:
    """A model of 8, 16 and 32 ms, after ten batches of the middle size at another speed."""
    model = LatencyModel(percentile=0.99, sizes=None)
    now_ns = 0
    for i in range(300):
        now_ns += NS_PER_MS
        rows = (1, 2, 4)[i % 3]
        model.observe(rows, 8 * rows * NS_PER_MS, Nanoseconds(now_ns))
    for _ in range(10):
        now_ns += NS_PER_MS
        model.observe(2, round(16 * NS_PER_MS * ratio), Nanoseconds(now_ns))
    return model


@pytest.mark.parametrize("ratio", [2.0, 0.5, 5.0])
def test_a_lasting_change_moves_every_size_and_is_counted(ratio: float) -> None:
    model = slowed(ratio)
    means = [model.mean_ns(rows) / NS_PER_MS for rows in (1, 2, 4)]
    assert means == pytest.approx([8 * ratio, 16 * ratio, 32 * ratio], rel=0.01)
    statistics = model.statistics()
    assert (statistics.slowdowns, statistics.speedups) == ((1, 0) if ratio > 1 else (0, 1))


def test_after_a_slowdown_promises_are_cautious_for_a_while() -> None:
    model = slowed(2.0)
    assert 1.3 < model.statistics().tail_factor < 1.5
    assert model.tail_ns(2) > 1.3 * 32 * NS_PER_MS
    for i in range(15):
        model.observe(2, 32 * NS_PER_MS, Nanoseconds(NS_PER_SECOND + i * NS_PER_MS))
        promised = 32 * NS_PER_MS * model.statistics().tail_factor
        assert model.tail_ns(2) == pytest.approx(promised, rel=0.04)
    for i in range(15, 100):
        model.observe(2, 32 * NS_PER_MS, Nanoseconds(NS_PER_SECOND + i * NS_PER_MS))
    assert model.statistics().tail_factor == pytest.approx(1, abs=0.03)
    assert model.tail_ns(2) == pytest.approx(32 * NS_PER_MS, rel=0.04)


def test_learning_waits_for_a_drawing_only_while_nothing_is_new() -> None:
    model = seen(*((4, 1_000_000) for _ in range(256)))
    before = model.mean_ns(4)
    for _ in range(20):
        model.observe(4, 900_000, START)  # within the promise, and no change of the machine
    assert model.mean_ns(4) == before
    model.observe(4, 1_000_001, START)  # beyond the promise
    assert model.mean_ns(4) < before
    model.observe(2, 400_000, START)  # the first of its size
    assert model.mean_ns(2) < before / 2


def test_a_steady_model_is_drawn_again_after_64_batches() -> None:
    model = seen(*((4, 1_000_000) for _ in range(256)))
    means = []
    for _ in range(128):
        model.observe(4, 900_000, START)
        means.append(model.mean_ns(4))
    assert len(set(means)) == 3


def test_samples_are_forgotten_after_256_more() -> None:
    samples = SizeSamples()
    samples.add(10**9, START)
    for _ in range(KEPT):
        samples.add(1_000, START)
    assert len(samples) == KEPT
    assert samples.summary(0.99)[:3] == (1_000, 0, 1_000)


def test_of_samples_older_than_ten_minutes_one_in_four_stays() -> None:
    samples = SizeSamples()
    for _ in range(200):
        samples.add(1_000, START)
    later = Nanoseconds(AGED_AFTER_NS)
    assert samples.weight(Nanoseconds(later - 1)) == 200
    assert samples.weight(later) == 50
    for _ in range(50):
        samples.add(3_000, later)
    assert len(samples) == 100
    assert samples.weight(later) == 100
    assert samples.summary(0.99).mean == 2_000


def test_what_a_change_leaves_of_the_samples_has_their_shape() -> None:
    samples = SizeSamples()
    for i in range(256):
        samples.add(1_000 + i, Nanoseconds(i))
    samples.add(2_000, Nanoseconds(300))
    before = samples.summary(0.5)
    samples.rescale(2.0, Nanoseconds(300))
    after = samples.summary(0.5)
    assert len(samples) == KEPT_AFTER_CHANGE + 1
    assert samples.rest_ns(2 * 1_255 - 1) == 1  # the largest one, scaled
    assert after.tail == pytest.approx(2 * before.tail, rel=0.01)
    assert after.mean == pytest.approx((2 * KEPT_AFTER_CHANGE * 1_128 + 2_000) / 33, rel=0.005)


def test_sums_of_a_window_stay_exact() -> None:
    samples = SizeSamples()
    values = [3 * 10**12 + i % 7 for i in range(1_000)]
    for value in values:
        samples.add(value, START)
    last = values[-KEPT:]
    mean = sum(last) / KEPT
    deviation = math.sqrt(sum((value - mean) ** 2 for value in last) / (KEPT - 1))
    assert samples.summary(0.99).std == pytest.approx(deviation, rel=1e-3)
