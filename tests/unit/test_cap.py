"""Caps of published profiles, and what is said when there is none."""

from collections.abc import Mapping, Sequence

import pytest

from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.cap import Cap, Infeasible, compute_cap
from tidegate_realtime.core.latency_model import LatencyModel

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def measured(times_ms: Mapping[int, float], sizes: Sequence[int] | None = None) -> LatencyModel:
    """A model that saw each size five times, without noise."""
    model = LatencyModel(percentile=0.99, sizes=sizes)
    for rows, took_ms in times_ms.items():
        for _ in range(5):
            model.observe(rows, ms_to_ns(took_ms), Nanoseconds(0))
    return model


def linear(alpha_ms: float, beta_ms: float, largest: int = 256) -> LatencyModel:
    return measured({b: alpha_ms * b + beta_ms for b in POWERS if b <= largest})


def cap_of(
    model: LatencyModel,
    *,
    slo_ms: float,
    overhead_ms: float = 0,
    executors: int = 1,
    memory_rows: int | None = None,
) -> Cap:
    cap = compute_cap(
        model,
        objective_ns=ms_to_ns(slo_ms),
        overhead_ns=ms_to_ns(overhead_ms),
        executors=executors,
        memory_rows=memory_rows,
    )
    assert isinstance(cap, Cap)
    return cap


@pytest.mark.parametrize(("executors", "expected"), [(1, 7), (8, 16)])
def test_symphonys_two_bounds_for_resnet50_at_25_ms(executors: int, expected: int) -> None:
    # arXiv 2308.07470: 2·l(7) = 24.886 ms alone, (1 + 1/8)·l(16) = 24.660 ms among eight
    cap = cap_of(linear(1.053, 5.072), slo_ms=25, executors=executors)
    assert (cap.slo_rows, cap.calm_rows) == (expected, expected)
    assert (cap.rows, cap.limited_by) == (18, "slo")  # 18 rows end after 24.026 ms, 19 after 25.08


def test_clockworks_resnet50_leaves_room_for_who_just_missed_8_rows_of_25_ms() -> None:
    # OSDI 2020, measured points: 2·12.439 <= 25 < 2·21.729
    times_ms = {1: 3.322, 2: 5.271, 4: 7.495, 8: 12.439, 16: 21.729}
    cap = cap_of(measured(times_ms, sizes=(1, 2, 4, 8, 16)), slo_ms=25)
    assert (cap.calm_rows, cap.slo_rows, cap.knee_rows) == (8, 8, 16)
    assert cap.rows == 16  # 21.729 ms, alone in time


@pytest.mark.parametrize("alpha_ms", [1.0, 1.2, 1.4, 1.6, 1.8])
def test_the_optimum_of_nexus_is_25_rows_whatever_the_slope(alpha_ms: float) -> None:
    # SOSP 2019, section 4.3: beta = 50 - 25·alpha, so that 2·l(25) = 100 ms exactly
    assert cap_of(linear(alpha_ms, 50 - 25 * alpha_ms), slo_ms=100).slo_rows == 25


def test_a_generous_objective_ends_at_the_knee() -> None:
    # V100 of Inoue 2021: 97 % of 256/(0.1438·256 + 1.8874) is first reached at 157 rows
    cap = cap_of(linear(0.1438, 1.8874), slo_ms=1_000)
    assert (cap.rows, cap.limited_by, cap.slo_rows) == (157, "knee", 256)


def test_a_model_that_gains_nothing_from_company_runs_alone() -> None:
    cap = cap_of(linear(5.0, 0.1), slo_ms=1_000)
    assert (cap.rows, cap.limited_by) == (1, "knee")


def test_memory_rounds_down_to_an_allowed_size() -> None:
    model = measured({b: 0.1 * b + 10 for b in POWERS}, sizes=POWERS)
    cap = cap_of(model, slo_ms=1_000, memory_rows=100)
    assert (cap.rows, cap.limited_by, cap.memory_rows) == (64, "memory", 64)


def test_what_ends_at_the_largest_warmed_size_says_so() -> None:
    cap = cap_of(linear(0.01, 10, largest=8), slo_ms=1_000)
    assert (cap.rows, cap.limited_by) == (8, "measured")


def test_overhead_is_taken_from_the_objective_first() -> None:
    model = linear(1.053, 5.072)
    assert cap_of(model, slo_ms=25, overhead_ms=0.114).calm_rows == 7
    assert cap_of(model, slo_ms=25, overhead_ms=0.115).calm_rows == 6
    assert cap_of(model, slo_ms=25, overhead_ms=0.974).rows == 18
    assert cap_of(model, slo_ms=25, overhead_ms=0.975).rows == 17


def test_a_machine_whose_tails_grow_does_not_cut_requests_into_single_rows() -> None:
    model = LatencyModel(percentile=0.99, sizes=(1, 8))
    for rows, took_ms in ((1, 10), (8, 20)):
        for place in range(120):  # every tenth call takes 70 ms longer
            took_ns = ms_to_ns(took_ms + 70 * (place % 10 == 9))
            model.observe(rows, took_ns, Nanoseconds(0))
    cap = cap_of(model, slo_ms=85)
    assert (cap.calm_rows, cap.rows) == (1, 8)


def test_a_smallest_size_above_one_is_the_least_cap() -> None:
    cap = cap_of(measured({8: 20.0}, sizes=(8,)), slo_ms=25)
    assert (cap.rows, cap.calm_rows, cap.slo_rows) == (8, 8, 0)
    assert cap.warning is not None


@pytest.mark.field_fault("S-13", "S-19")
def test_an_objective_below_one_row_is_refused_with_both_numbers_and_what_to_do() -> None:
    refused = compute_cap(
        measured({1: 60.0}),
        objective_ns=ms_to_ns(50),
        overhead_ns=ms_to_ns(1),
        executors=1,
        memory_rows=None,
    )
    assert isinstance(refused, Infeasible)
    assert refused.message("risk@7") == (
        "risk@7: one row takes 61 ms at p99, the objective is 50 ms; raise slo_ms, use a faster "
        "variant, or set best_effort = true"
    )


@pytest.mark.parametrize(("needed_ns", "shown"), [(50_000_001, "50.01"), (1_250_000_000, "1250")])
def test_a_miss_by_a_nanosecond_does_not_read_as_kept(needed_ns: int, shown: str) -> None:
    refused = Infeasible(
        needed_ns=Nanoseconds(needed_ns), objective_ns=ms_to_ns(50), percentile=0.999
    )
    assert f"takes {shown} ms at p99.9, the objective is 50 ms" in refused.message("risk@7")


@pytest.mark.parametrize(("objective_ns", "shown"), [(4_000, "0.004"), (1, "0.000001")])
def test_an_objective_below_a_hundredth_of_a_millisecond_is_told_as_it_was_set(
    objective_ns: int, shown: str
) -> None:
    refused = Infeasible(
        needed_ns=Nanoseconds(20_001), objective_ns=Nanoseconds(objective_ns), percentile=0.99
    )
    message = refused.message("risk@7")
    assert f"takes 0.020001 ms at p99, the objective is {shown} ms" in message


def test_an_objective_below_two_calls_warns() -> None:
    model = measured({1: 30.0, 2: 31.0})
    assert cap_of(model, slo_ms=60).warning is None
    cap = cap_of(model, slo_ms=59)
    assert (cap.slo_rows, cap.calm_rows) == (0, 1)
    assert cap.warning == (
        "a request that just missed a call may be late: the wait for an executor and its own call "
        "take up to 60 ms at p99, the objective is 59 ms; raise slo_ms, use a faster variant, or "
        "add executors"
    )


def test_memory_below_the_smallest_size_is_a_bug_of_the_settings() -> None:
    with pytest.raises(ValueError, match="memory for 4 rows is less than the smallest size, 8"):
        cap_of(measured({8: 1.0}, sizes=(8,)), slo_ms=100, memory_rows=4)


def test_nothing_measured_means_no_cap() -> None:
    with pytest.raises(ValueError, match="nothing is known"):
        cap_of(LatencyModel(percentile=0.99, sizes=None), slo_ms=100)


def test_the_cap_shrinks_when_the_model_slows_down() -> None:
    model = linear(1.053, 5.072)
    before = model.revision
    for i in range(50):
        model.observe(4, ms_to_ns(2 * (1.053 * 4 + 5.072)), Nanoseconds((i + 1) * NS_PER_MS))
    assert model.revision > before
    slower = compute_cap(
        model,
        objective_ns=ms_to_ns(25),
        overhead_ns=Nanoseconds(0),
        executors=1,
        memory_rows=None,
    )
    assert isinstance(slower, Cap)
    assert slower.calm_rows < 7
    assert slower.rows < 18
