"""Draws follow the law: mean, spread, stalls, drift; and nothing but the seed decides them."""

import math
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.profiles import (
    DriftStep,
    LatencyProfile,
    Linear,
    MeasuredSize,
    Noise,
    Origin,
    ProfileSampler,
    Stalls,
    Table,
    dump_profile,
    parse_profile,
)
from tidegate.units import seconds_to_ns

ORIGIN = Origin(status="assumed", source="a test", date="2026-12-01")
LINE = Linear(alpha_ms=1.053, beta_ms=5.072)
STALLS = Stalls(probability=0.01, duration_ms=250)
DRIFT = (DriftStep(at_s=20, factor=2), DriftStep(at_s=40, factor=1))
milliseconds = st.floats(0.001, 10_000)


def profile(
    law: Linear | Table = LINE,
    noise: Noise | None = None,
    stalls: Stalls | None = None,
    drift: tuple[DriftStep, ...] = (),
) -> LatencyProfile:
    return LatencyProfile(
        schema=1, name="p", law=law, origin=ORIGIN, noise=noise, stalls=stalls, drift=drift
    )


def measured(means_ms: list[float]) -> Table:
    sizes = (
        MeasuredSize(rows=2**place, mean_ms=mean_ms, std_ms=mean_ms / 10)
        for place, mean_ms in enumerate(means_ms)
    )
    return Table(sizes=tuple(sizes))


tables = st.lists(milliseconds, min_size=1, max_size=8).map(measured)
lines = st.builds(Linear, alpha_ms=milliseconds, beta_ms=milliseconds)
profiles = st.builds(
    profile,
    law=tables | lines,
    noise=st.none() | st.builds(Noise, cv=st.floats(0, 3)),
    stalls=st.none() | st.just(STALLS),
    drift=st.just(()) | st.just(DRIFT),
)


def draws(of: LatencyProfile, *, count: int, rows: int = 8, seed: int = 1) -> list[int]:
    sampler = ProfileSampler(of, Random(seed))
    return [sampler.draw_ns(rows, now_ns) for now_ns in range(count)]


@pytest.mark.parametrize("cv", [0.05, 0.3, 1.0])
def test_noise_leaves_the_mean_where_it_is_and_has_the_spread_that_was_asked_for(
    cv: float,
) -> None:
    noisy = profile(noise=Noise(cv=cv))
    took_ns = draws(noisy, count=200_000)
    assert fmean(took_ns) == pytest.approx(noisy.mean_ns(8), rel=0.01)
    assert stdev(took_ns) / fmean(took_ns) == pytest.approx(cv, rel=0.05)


def test_a_measured_spread_is_replayed() -> None:
    law = measured([2.0, 3.0, 4.0, 8.0])
    took_ns = draws(profile(law), count=100_000)
    assert fmean(took_ns) == pytest.approx(8e6, rel=0.01)
    assert stdev(took_ns) == pytest.approx(0.8e6, rel=0.05)


def test_without_noise_every_call_takes_what_the_law_says() -> None:
    assert set(draws(profile(), count=10)) == {round((1.053 * 8 + 5.072) * 1e6)}


def test_stalls_come_as_often_as_they_should_and_last_as_long() -> None:
    stalling = profile(stalls=STALLS)
    took_ns = draws(stalling, count=100_000)
    normal_ns = stalling.mean_ns(8)
    assert set(took_ns) == {normal_ns, normal_ns + 250_000_000}
    assert took_ns.count(normal_ns) / len(took_ns) == pytest.approx(0.99, abs=0.002)


def test_drift_holds_from_each_step_to_the_next_and_counts_from_the_start() -> None:
    start_ns = seconds_to_ns(1_000)
    drifting = profile(drift=DRIFT)
    sampler = ProfileSampler(drifting, Random(1), started_at_ns=start_ns)
    factors = [
        sampler.draw_ns(8, start_ns + seconds_to_ns(at_s)) / drifting.mean_ns(8)
        for at_s in (0, 19.9, 20, 39.9, 40, 9_000)
    ]
    assert factors == [1, 1, 2, 2, 1, 1]


@given(profiles, st.integers(0, 2**32), st.data())
def test_a_time_is_never_below_one_and_only_the_seed_decides_it(
    anything: LatencyProfile, seed: int, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(1, anything.largest_size or 512))
    first = draws(anything, count=20, rows=rows, seed=seed)
    assert min(first) >= 1
    assert first == draws(anything, count=20, rows=rows, seed=seed)


def test_another_seed_gives_other_times() -> None:
    noisy = profile(noise=Noise(cv=0.1))
    assert draws(noisy, count=5, seed=1) != draws(noisy, count=5, seed=2)


@given(tables, st.data())
def test_between_two_measured_sizes_the_mean_lies_between_theirs_and_goes_one_way(
    law: Table, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(1, law.sizes[-1].rows))
    below = max((size for size in law.sizes if size.rows <= rows), key=lambda size: size.rows)
    above = min((size for size in law.sizes if size.rows >= rows), key=lambda size: size.rows)
    low, high = sorted((below.mean_ms, above.mean_ms))
    assert low * (1 - 1e-9) <= law.mean_ms(rows) <= high * (1 + 1e-9)
    if rows < above.rows:
        rises = above.mean_ms - below.mean_ms
        assert (law.mean_ms(rows + 1) - law.mean_ms(rows)) * math.copysign(1, rises) >= -1e-6


@given(profiles)
def test_a_profile_that_is_written_and_read_is_the_same(anything: LatencyProfile) -> None:
    assert parse_profile(dump_profile(anything), where="again") == anything
