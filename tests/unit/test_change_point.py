"""When a shift is called a change, in exact steps."""

import math

import pytest

from tidegate.units import Nanoseconds
from tidegate_realtime.core.change_point import Change, ChangePoint

SPREAD = 0.1


def changes(deviations: list[float], spread: float = SPREAD) -> list[tuple[int, Change]]:
    """What is announced, and after how many batches; batch i ends at i ns."""
    watch = ChangePoint()
    found = [watch.on_batch(x, spread, Nanoseconds(i)) for i, x in enumerate(deviations, start=1)]
    return [(i, change) for i, change in enumerate(found, start=1) if change]


@pytest.mark.parametrize("sign", [1, -1])
def test_four_batches_at_another_speed_are_a_change(sign: int) -> None:
    shift = sign * math.log(2)
    [(after, change)] = changes(10 * [0.0] + 4 * [shift])
    assert after == 14
    assert change.ratio == pytest.approx(2.0**sign)
    assert change.since_ns == 11


def test_three_stalls_in_a_row_are_none() -> None:
    assert changes(3 * [3.0] + 100 * [0.0]) == []


def test_stalls_among_ordinary_batches_are_none() -> None:
    assert changes(50 * [3.0, 0.0, 0.0]) == []


def test_a_faint_shift_is_left_to_the_conformal_factor() -> None:
    assert changes(1_000 * [0.99 * SPREAD]) == []
    assert [after for after, _ in changes(100 * [1.15 * SPREAD])] == [67]


def test_a_steady_shift_is_announced_once_a_change_has_been_applied() -> None:
    assert [after for after, _ in changes(8 * [1.0])] == [4, 8]  # here nobody applied it
    assert [after for after, _ in changes(4 * [1.0] + 100 * [0.0])] == [4]


def test_with_an_unknown_spread_nothing_is_a_change() -> None:
    assert changes(100 * [5.0], spread=math.inf) == []


def test_a_stall_in_it_does_not_change_the_size_of_a_change() -> None:
    [(_, change)] = changes([0.3, 0.3, 5.0, 0.3, 0.3, 0.3])
    assert change.ratio == pytest.approx(math.exp(0.3))
