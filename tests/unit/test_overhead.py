"""Overhead and lag of the loop, as quantiles of what was seen last."""

from tidegate_realtime.core.overhead import Overhead


def test_before_anything_was_measured_both_are_nothing() -> None:
    overhead = Overhead(percentile=0.99)
    assert (overhead.overhead_ns, overhead.guard_ns) == (0, 0)


def test_both_are_quantiles_of_their_own_values() -> None:
    overhead = Overhead(percentile=0.99)
    for value in range(1, 101):
        overhead.on_request(value)
        overhead.on_timer(1_000 * value)
    assert (overhead.overhead_ns, overhead.guard_ns) == (99, 99_000)


def test_of_few_values_the_largest_counts() -> None:
    overhead = Overhead(percentile=0.99)
    for value in (5, 9, 7):
        overhead.on_request(value)
    assert overhead.overhead_ns == 9


def test_what_happened_a_thousand_values_ago_is_forgotten() -> None:
    overhead = Overhead(percentile=0.99)
    for _ in range(100):
        overhead.on_request(10**9)
    for _ in range(1_000):
        overhead.on_request(7)
    assert overhead.overhead_ns == 7
