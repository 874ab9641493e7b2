"""The token bucket of a tenant."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.units import NS_PER_SECOND
from tidegate_realtime.core.quota import Allowance


class Rate(NamedTuple):
    rows_per_second: float
    burst_rows: int


TEN = Rate(10, 4)


def at(seconds: float) -> int:
    return int(seconds * NS_PER_SECOND)


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    allowance = Allowance()
    for _ in range(4):
        assert allowance.wait_ns(TEN, at(100)) == 0
        allowance.take(TEN, 1, at(100))
    assert allowance.wait_ns(TEN, at(100)) == at(0.1)
    assert allowance.wait_ns(TEN, at(100.1) - 1) == 1
    assert allowance.wait_ns(TEN, at(100.1)) == 0


def test_a_request_of_more_rows_than_a_burst_is_let_through_and_paid_for_afterwards() -> None:
    allowance = Allowance()
    assert allowance.wait_ns(TEN, at(100)) == 0
    allowance.take(TEN, 50, at(100))
    assert allowance.wait_ns(TEN, at(100)) == at(4.7)  # 5 s of rows, of which 4 may be ahead


def test_who_was_away_for_long_has_a_burst_and_no_more() -> None:
    allowance = Allowance()
    allowance.take(TEN, 4, at(1))
    for _ in range(4):
        assert allowance.wait_ns(TEN, at(1_000)) == 0
        allowance.take(TEN, 1, at(1_000))
    assert allowance.wait_ns(TEN, at(1_000)) > 0


@pytest.mark.parametrize("rate", [0.001, 1 / 3, 1e9])
def test_any_rate_is_kept(rate: float) -> None:
    allowance, quota = Allowance(), Rate(rate, 1)
    allowance.take(quota, 1, 0)
    assert allowance.wait_ns(quota, 0) == pytest.approx(NS_PER_SECOND / rate, abs=1)


def test_rows_one_by_one_cost_as_much_as_together() -> None:
    allowance, quota = Allowance(), Rate(6e8, 1)
    for _ in range(600):
        allowance.take(quota, 1, 0)
    assert allowance.wait_ns(quota, 0) >= 1_000


def test_what_is_owed_is_paid_for_at_a_new_rate_and_not_forgotten() -> None:
    allowance, quicker = Allowance(), Rate(1_000_000, 4)
    allowance.take(TEN, 50, at(100))
    assert allowance.wait_ns(quicker, at(100)) == 47_000
    assert allowance.wait_ns(TEN, at(100)) == at(4.7)  # looking changes nothing
    for now_ns in range(at(100), at(100) + 10_000, 1_000):  # two keys of one tenant, by turns
        for quota in (TEN, quicker):
            assert allowance.wait_ns(quota, now_ns) > 0
            allowance.take(quota, 1, now_ns)
    assert allowance.wait_ns(TEN, at(100)) == pytest.approx(at(6.7), rel=0.01)


@given(
    rate=st.floats(0.5, 1_000),
    burst=st.integers(1, 50),
    asked=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 30)), max_size=60),
)
def test_never_more_than_the_rate_a_burst_and_one_request(
    rate: float, burst: int, asked: list[tuple[float, int]]
) -> None:
    allowance, quota, now_ns, taken = Allowance(), Rate(rate, burst), at(5), 0
    began_at_ns = now_ns
    for pause_s, rows in asked:
        now_ns += at(pause_s)
        if allowance.wait_ns(quota, now_ns) == 0:
            allowance.take(quota, rows, now_ns)
            taken += rows
        allowed = burst + rate * (now_ns - began_at_ns) / NS_PER_SECOND
        assert taken <= allowed + 29 + 1e-3
