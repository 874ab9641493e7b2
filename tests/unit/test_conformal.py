"""The two factors: what moves them, and how far."""

import math

import pytest

from tidegate_realtime.core.conformal import CAUTION, WINDOW, Calibration


def compared(ratios: list[float], percentile: float = 0.99) -> Calibration:
    calibration = Calibration(percentile)
    for ratio in ratios:
        calibration.add(tail_ratios=[ratio], mean_ratios=[ratio])
        calibration.renew()
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
    assert (few.centre, few.spread) == (0, math.inf)
    enough = compared([math.exp(-0.5), math.exp(0.3), math.exp(0.3)] * 14)
    assert enough.centre == pytest.approx(0.3)
    assert enough.spread == pytest.approx(0.4)


def test_the_steadiest_model_has_a_spread_of_a_tenth() -> None:
    assert compared([1.0] * 100).spread == 0.1


def test_many_comparisons_at_once_move_the_factor_as_far_as_one_by_one() -> None:
    at_once = Calibration(0.99)
    at_once.add(tail_ratios=[1.2] * 60, mean_ratios=[1.2] * 60)
    assert at_once.tail_factor == 1.0  # as it is in force, until it is renewed
    at_once.renew()
    assert at_once.tail_factor == pytest.approx(compared([1.2] * 60).tail_factor, rel=0.01)
    before = at_once.tail_factor
    at_once.renew()
    assert at_once.tail_factor == before


def test_how_soon_the_factor_will_have_moved_is_foretold() -> None:
    calibration = compared([1.0] * WINDOW)
    assert calibration.batches_to_move(0.03) == math.inf
    calibration.on_change(slower=True)
    calibration.renew()
    assert calibration.tail_factor == CAUTION
    batches = math.ceil(calibration.batches_to_move(0.03))
    for count in range(1, batches + 1):
        calibration.add(tail_ratios=[1.0], mean_ratios=[1.0])
        calibration.renew()
        assert (calibration.tail_factor <= CAUTION * 0.97) == (count == batches)
