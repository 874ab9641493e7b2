"""Rates and the envelope against a list of all arrivals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ENOUGH_ROWS, ArrivalRate

gap = st.one_of(
    st.integers(0, 30 * NS_PER_MS),
    st.integers(0, 2 * NS_PER_SECOND),
    st.integers(0, 30 * NS_PER_SECOND),
)
arrivals = st.lists(st.tuples(gap, st.integers(1, 40), st.booleans()), min_size=1, max_size=80)


def most(counted: list[tuple[int, int]], length_ns: int) -> int:
    """Most rows in any window of this length, open at its end."""
    return max(
        sum(rows for at_ns, rows in counted if start <= at_ns < start + length_ns)
        for start, _ in counted
    )


@given(arrivals, gap)
def test_windows_hold_what_arrived_within_them(
    gaps: list[tuple[int, int, bool]], since_last_ns: int
) -> None:
    rate = ArrivalRate()
    counted: list[tuple[int, int]] = []
    now_ns = 0
    for passed_ns, rows, is_asked in gaps:
        now_ns += passed_ns
        rate.on_arrival(rows, Nanoseconds(now_ns))
        counted.append((now_ns, rows))
        if is_asked:  # looking changes nothing
            rate.rows_per_second(Nanoseconds(now_ns))
    end = Nanoseconds(now_ns + since_last_ns)

    def since(length_ns: int) -> tuple[int, float]:
        bucket_ns = length_ns // 10
        start = (end // bucket_ns - 9) * bucket_ns
        arrived = sum(rows for at_ns, rows in counted if at_ns >= start)
        return arrived, arrived * NS_PER_SECOND / (end - start)

    tenth, second, ten_seconds = (
        since(length_ns) for length_ns in (NS_PER_SECOND // 10, NS_PER_SECOND, 10 * NS_PER_SECOND)
    )
    if second[0] >= ENOUGH_ROWS:
        load = max(each[1] for each in (tenth, second) if each[0] >= ENOUGH_ROWS)
    else:
        second_ns = (end % (NS_PER_SECOND // 10)) + NS_PER_SECOND * 9 // 10
        load = min(ten_seconds[1], ENOUGH_ROWS * NS_PER_SECOND / second_ns)
    assert rate.rows_per_second(end) == pytest.approx(load)
    assert rate.smooth_rows_per_second(end) == pytest.approx(ten_seconds[1])
    envelope = rate.envelope(end)
    for length_ns, found in (
        (NS_PER_SECOND // 10, envelope.tenth_rows),
        (NS_PER_SECOND, envelope.second_rows),
        (10 * NS_PER_SECOND, envelope.ten_seconds_rows),
    ):
        assert most(counted, length_ns * 9 // 10) <= found <= most(counted, length_ns)
