from hypothesis import given
from hypothesis import strategies as st

from tidegate.units import ms_to_ns, ns_to_ms, ns_to_seconds, seconds_to_ns


@given(st.integers(min_value=0, max_value=2**53))
def test_time_converts_there_and_back_without_loss(nanoseconds: int) -> None:
    assert abs(ms_to_ns(ns_to_ms(nanoseconds)) - nanoseconds) <= 1
    assert abs(seconds_to_ns(ns_to_seconds(nanoseconds)) - nanoseconds) <= 1


def test_a_millisecond_is_a_million_nanoseconds() -> None:
    assert (ms_to_ns(1.5), ns_to_ms(2_500_000), seconds_to_ns(0.25)) == (
        1_500_000,
        2.5,
        250_000_000,
    )
