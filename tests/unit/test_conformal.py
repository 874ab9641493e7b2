"""The two factors: what moves them, and how far."""

import math

import pytest

from tidegate_realtime.core.conformal import CAUTION, WINDOW, Calibration


def compared(ratios: list[float], percentile: float = 0.99) -> Calibration:
    calibration = Calibration(percentile)
    for ratio in ratios:
        calibration.on_batch(tail_ratio=ratio, mean_ratio=ratio)
    return calibration


def test_a_single_stall_in_the_window_moves_no_promise() -> None:
    assert compared([1.0] * 100 + [10.0] + [1.0] * 99).tail_factor == 1.0


def test_many_stalls_do_not_raise_promises_to_their_own_length() -> None:
    assert compared([1.0, 10.0] * WINDOW).tail_factor == pytest.approx(CAUTION)


def test_promises_are_lowered_only_by_a_full_window() -> None:
    assert compared([0.8] * (WINDOW - 1)).tail_factor == 1.0
    assert compared([0.8] * 2 * WINDOW).tail_factor == pytest.approx(0.8, rel=0.01)


def test_the_factor_moves_gently() -> None:
    assert 1.0 < compared([1.2] * 3).tail_factor < 1.02
    assert compared([1.2] * 100).tail_factor == pytest.approx(1.2, rel=0.01)


def test_the_mean_factor_is_the_mean_over_a_window_filled_up_with_ones() -> None:
    assert compared([1.5] * 50).mean_factor == pytest.approx(1.125)
    assert compared([3.0] * WINDOW + [1.0, 2.0] * (WINDOW // 2)).mean_factor == pytest.approx(1.5)


def test_centre_and_spread_are_unknown_until_there_are_forty_comparisons() -> None:
    few = compared([math.exp(-0.5), math.exp(0.3)] * 19)
    assert (few.measure(), few.spread) == (0, math.inf)
    enough = compared([math.exp(-0.5), math.exp(0.3), math.exp(0.3)] * 14)
    assert enough.measure() == pytest.approx(0.3)
    assert enough.spread == pytest.approx(0.4)


def test_the_steadiest_model_has_a_spread_of_a_tenth() -> None:
    steady = compared([1.0] * 100)
    steady.measure()
    assert steady.spread == 0.1
