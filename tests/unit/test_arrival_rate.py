"""Rows per second, in exact cases."""

import pytest

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ArrivalRate, Envelope


def steady(rate_rps: int, seconds: int) -> ArrivalRate:
    rate = ArrivalRate()
    for i in range(rate_rps * seconds):
        rate.on_arrival(1, Nanoseconds(i * NS_PER_SECOND // rate_rps))
    return rate


def test_a_steady_load_reads_as_what_it_is() -> None:
    rate = steady(1_000, seconds=12)
    end = Nanoseconds(12 * NS_PER_SECOND - 1)
    assert rate.rows_per_second(end) == pytest.approx(1_000, rel=0.01)
    assert rate.smooth_rows_per_second(end) == pytest.approx(1_000, rel=0.01)
    assert rate.envelope(end) == Envelope(
        tenth_rows=100, second_rows=1_000, ten_seconds_rows=10_000
    )


def test_rows_count_and_not_requests() -> None:
    rate = ArrivalRate()
    rate.on_arrival(32, Nanoseconds(0))
    assert rate.envelope(Nanoseconds(0)).tenth_rows == 32


def test_a_burst_is_seen_at_once_and_remembered_for_a_second() -> None:
    rate = steady(100, seconds=2)
    burst = Nanoseconds(2 * NS_PER_SECOND)
    rate.on_arrival(50, burst)
    assert rate.rows_per_second(burst) > 500
    assert rate.rows_per_second(Nanoseconds(burst + 500 * NS_PER_MS)) > 90
    assert rate.rows_per_second(Nanoseconds(burst + NS_PER_SECOND)) == 0
    assert rate.smooth_rows_per_second(Nanoseconds(burst + NS_PER_SECOND)) > 20


def test_after_a_long_silence_nothing_is_left() -> None:
    rate = steady(1_000, seconds=1)
    later = Nanoseconds(3_600 * NS_PER_SECOND)
    assert rate.rows_per_second(later) == 0
    assert rate.smooth_rows_per_second(later) == 0
    rate.on_arrival(1, later)
    assert rate.rows_per_second(later) == pytest.approx(1 / 0.09)
    assert rate.envelope(later).second_rows == 1_000


def test_silence_from_the_start_is_no_load() -> None:
    assert ArrivalRate().rows_per_second(Nanoseconds(0)) == 0
