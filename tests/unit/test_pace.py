"""What the load and the objective make of a batch."""

import pytest

from tidegate.units import NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.pace import Pace


def pace_of(
    alpha_ms: float, beta_ms: float, *, slo_ms: float, executors: int = 1, largest: int = 64
) -> Pace:
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, largest + 1):
        model.observe(rows, ms_to_ns(alpha_ms * rows + beta_ms), Nanoseconds(0))
    objective_ns = Nanoseconds(ms_to_ns(slo_ms))
    return Pace(model, objective_ns, None, executors=executors, limits=BatchLimits())


def under_load(pace: Pace, rows_per_second: float, *, seconds: float = 2) -> Pace:
    for place in range(round(rows_per_second * seconds)):
        pace.on_arrival(1, Nanoseconds(round(place * NS_PER_SECOND / rows_per_second)))
    return pace


@pytest.mark.parametrize(("rps", "need"), [(50, 1), (80, 1), (90, 2), (400, 9)])
def test_the_need_is_what_carries_the_load_at_85_percent_of_use(rps: float, need: int) -> None:
    # b rows take b + 9 ms: 85 rows/s one by one, 154.5 by twos, 425 by nines
    assert under_load(pace_of(1.0, 9.0, slo_ms=82), rps).need_rows == need


def test_the_need_ends_where_the_load_fills_no_larger_batch_in_time() -> None:
    pace = pace_of(1.0, 9.0, slo_ms=82)
    assert (pace.calm_rows, pace.cap_rows) == (32, 52)
    need_rows = under_load(pace, 900).need_rows
    in_time = 0.9 * (82 - 9 - need_rows)  # arrive while there is still time for the call itself
    assert 32 < need_rows <= in_time + 2 * in_time**0.5


def test_twice_the_executors_need_half_the_company() -> None:
    one, two = (pace_of(1.0, 9.0, slo_ms=100, executors=k) for k in (1, 2))
    assert under_load(two, 780).need_rows == under_load(one, 390).need_rows == 8


def test_more_contenders_for_a_place_make_promises_more_careful() -> None:
    calm, crowded = (under_load(pace_of(1.0, 9.0, slo_ms=82), rps) for rps in (100, 2_000))
    assert 1 < calm.caution < crowded.caution
