"""Overhead and lag of the loop, as quantiles of what was seen of late."""

import pytest

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.overhead import FORGOTTEN_AFTER_NS, KEPT, Overhead

STALL_NS = 500_000_000


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * NS_PER_SECOND))


def test_before_anything_was_measured_both_are_nothing() -> None:
    overhead = Overhead(percentile=0.99)
    assert (overhead.overhead_ns, overhead.guard_ns) == (0, 0)


def test_both_are_quantiles_of_their_own_values() -> None:
    overhead = Overhead(percentile=0.99)
    for value in range(1, 201):
        overhead.on_request(value, at(0))
        overhead.on_timer(1_000 * value, at(0))
    assert (overhead.overhead_ns, overhead.guard_ns) == (198, 198_000)


def test_a_single_value_is_all_that_is_known() -> None:
    overhead = Overhead(percentile=0.99)
    overhead.on_request(9, at(0))
    assert overhead.overhead_ns == 9


@pytest.mark.parametrize("count", [2, 3, 50, 100])
def test_of_few_values_the_second_largest_counts(count: int) -> None:
    overhead = Overhead(percentile=0.99)
    for value in range(count):
        overhead.on_request(value, at(0))
    assert overhead.overhead_ns == count - 2


def test_a_stall_at_the_start_is_forgotten_by_the_second_request() -> None:
    overhead = Overhead(percentile=0.99)
    overhead.on_request(STALL_NS, at(0))
    assert overhead.overhead_ns == STALL_NS
    overhead.on_request(7, at(60))
    assert overhead.overhead_ns == 7


def test_two_stalls_count_for_ten_seconds() -> None:
    overhead = Overhead(percentile=0.99)
    for second in (0, 0, *range(1, 10)):
        overhead.on_request(7 if second else STALL_NS, at(second))
    assert overhead.overhead_ns == STALL_NS
    overhead.on_request(7, at(10))
    assert overhead.overhead_ns == 7


def test_a_gateway_with_a_request_an_hour_goes_by_the_better_of_the_last_two() -> None:
    overhead = Overhead(percentile=0.99)
    seen = []
    for hour, value in enumerate((5, 8, STALL_NS, 9, 6)):
        overhead.on_request(value, at(3_600 * hour))
        seen.append(overhead.overhead_ns)
    assert seen == [5, 5, 8, 9, 6]


def test_a_late_timer_is_forgotten_though_no_other_timer_fires() -> None:
    overhead = Overhead(percentile=0.99)
    overhead.on_timer(STALL_NS, at(0))
    overhead.on_request(7, at(9))
    assert overhead.guard_ns == STALL_NS
    overhead.on_request(7, Nanoseconds(FORGOTTEN_AFTER_NS))
    assert overhead.guard_ns == 0


def test_what_happened_a_thousand_values_ago_is_forgotten_however_fast_they_came() -> None:
    overhead = Overhead(percentile=0.99)
    for _ in range(100):
        overhead.on_request(STALL_NS, at(0))
    for _ in range(KEPT):
        overhead.on_request(7, at(1))
    assert overhead.overhead_ns == 7
