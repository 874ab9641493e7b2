"""Rows per second, in exact cases."""

import pytest

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ENOUGH_ROWS, ArrivalRate, Envelope


def at(seconds: float) -> Nanoseconds:
    return Nanoseconds(round(seconds * NS_PER_SECOND))


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
    burst = at(2)
    rate.on_arrival(50, burst)
    assert rate.rows_per_second(burst) > 500
    assert rate.rows_per_second(at(2.5)) > 90
    assert rate.rows_per_second(at(3)) < 30
    assert rate.smooth_rows_per_second(at(3)) > 20


@pytest.mark.parametrize("rate_rps", [400, 1_000, 50_000])
def test_a_step_to_a_high_rate_is_seen_within_a_tenth_of_a_second(rate_rps: int) -> None:
    rate = steady(10, seconds=12)
    for i in range(rate_rps // 9):
        rate.on_arrival(1, Nanoseconds(at(12) + i * NS_PER_SECOND // rate_rps))
    assert rate.rows_per_second(at(12.111)) == pytest.approx(rate_rps, rel=0.15)


@pytest.mark.parametrize("rate_rps", [20, 35, 100])
def test_a_step_to_a_low_rate_takes_as_long_as_thirty_rows(rate_rps: int) -> None:
    rate = ArrivalRate()
    for i in range(12 * rate_rps):
        rate.on_arrival(1, Nanoseconds(at(3_600) + i * NS_PER_SECOND // rate_rps))
        if i == rate_rps:  # after a second
            seen = rate.rows_per_second(Nanoseconds(at(3_601)))
            assert seen <= 1.12 * rate_rps
            assert (seen > 0.9 * rate_rps) == (rate_rps > ENOUGH_ROWS)
    assert rate.rows_per_second(at(3_612)) == pytest.approx(rate_rps, rel=0.12)


@pytest.mark.parametrize("rows", [1, 29])
def test_a_few_rows_are_no_high_rate(rows: int) -> None:
    rate = ArrivalRate()
    rate.on_arrival(rows, at(3_600))
    assert rate.rows_per_second(at(3_600)) == pytest.approx(rows / 9)


def test_a_large_request_is_a_burst() -> None:
    rate = ArrivalRate()
    rate.on_arrival(30, at(3_600))
    assert rate.rows_per_second(at(3_600)) == pytest.approx(30 / 0.09)


def test_when_a_high_load_ends_at_most_thirty_a_second_are_believed() -> None:
    rate = steady(1_000, seconds=12)
    assert rate.rows_per_second(at(12.5)) > 400
    seen = [rate.rows_per_second(at(12 + quarter / 4)) for quarter in range(4, 48)]
    assert seen[0] == pytest.approx(30 / 0.9)
    assert all(later <= 30 / 0.9 for later in seen)
    assert seen[-1] == 0


def test_after_a_long_silence_nothing_is_left() -> None:
    rate = steady(1_000, seconds=1)
    later = at(3_600)
    assert rate.rows_per_second(later) == 0
    assert rate.smooth_rows_per_second(later) == 0
    rate.on_arrival(1, later)
    assert rate.rows_per_second(later) == pytest.approx(1 / 9)
    assert rate.envelope(later).second_rows == 1_000


def test_silence_from_the_start_is_no_load() -> None:
    assert ArrivalRate().rows_per_second(Nanoseconds(0)) == 0
