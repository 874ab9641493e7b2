"""The sweep: which size comes next, when it rises no further, and where the budget goes."""

from collections import Counter
from collections.abc import Callable

import pytest

from tidegate.profiles import load_profile
from tidegate_realtime.core.sweep import POWERS_OF_TWO, Sweep, SweepLimits, knee_rows

MS = 1_000_000
SECOND = 1_000 * MS


def drive(
    limits: SweepLimits, took_ns: Callable[[int], int], *, fails_from: int = 10**9
) -> tuple[Sweep, list[int]]:
    """Run the sweep on a model whose times are known; returns every size that was run."""
    now_ns = 7 * SECOND
    sweep, asked = Sweep(limits, now_ns=now_ns), []
    while (rows := sweep.next_rows(now_ns)) is not None:
        asked.append(rows)
        if rows >= fails_from:
            sweep.on_failed(rows)
            continue
        now_ns += took_ns(rows)
        sweep.on_run(rows, took_ns(rows), now_ns)
    return sweep, asked


def linear(alpha_ms: float, beta_ms: float) -> Callable[[int], int]:
    return load_profile(f"linear:{alpha_ms}:{beta_ms}").mean_ns


def test_it_rises_by_doubling_as_long_as_that_pays() -> None:
    sweep, _ = drive(SweepLimits(budget_ns=SECOND), linear(1, 5))
    assert list(sweep.runs) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    sweep, _ = drive(SweepLimits(budget_ns=SECOND), linear(1, 0.5))
    assert list(sweep.runs) == [1, 2, 4, 8, 16, 32, 64]


def test_a_model_that_gains_nothing_is_not_pushed_far() -> None:
    sweep, _ = drive(SweepLimits(budget_ns=SECOND), linear(5, 0))
    assert list(sweep.runs) == [1, 2, 4]
    assert knee_rows({rows: took[0] for rows, took in sweep.runs.items()}) == 1


def test_one_size_that_is_slower_than_its_neighbours_does_not_end_the_rise() -> None:
    sweep, _ = drive(SweepLimits(budget_ns=SECOND), load_profile("titanx-vgg16").mean_ns)
    assert max(sweep.runs) >= 32


def test_sizes_that_lie_close_together_end_the_rise_no_sooner_than_doublings_would() -> None:
    profile = load_profile("titanx-vgg-s")  # 911 rows/s at 6, 862 at 7, 890 at 8, and 1,156 at 24
    sizes = profile.allowed_sizes
    assert sizes is not None
    assert sizes[:8] == (1, 2, 3, 4, 5, 6, 7, 8)
    sweep, _ = drive(SweepLimits(budget_ns=SECOND, sizes=sizes), profile.mean_ns)
    assert max(sweep.runs) >= 24


def test_it_ends_above_the_objective_which_no_cap_allows() -> None:
    limits = SweepLimits(budget_ns=60 * SECOND, objective_ns=20 * MS)
    sweep, _ = drive(limits, linear(1, 5))
    assert list(sweep.runs) == [1, 2, 4, 8, 16]


def test_it_never_leaves_the_sizes_that_the_model_allows() -> None:
    sweep, asked = drive(SweepLimits(budget_ns=SECOND, sizes=(8,)), linear(1, 5))
    assert set(asked) == {8}
    assert len(sweep.runs[8]) == 20


def test_the_first_run_of_a_size_is_not_counted() -> None:
    first: set[int] = set()

    def took_ns(rows: int) -> int:
        is_first = rows not in first
        first.add(rows)
        return SECOND // 100 if is_first else rows * MS // 10 + MS

    sweep, asked = drive(SweepLimits(budget_ns=SECOND), took_ns)
    for rows, runs in sweep.runs.items():
        assert set(runs) == {rows * MS // 10 + MS}
        assert len(runs) == asked.count(rows) - 1


def test_with_time_enough_every_size_is_run_twenty_times_and_then_it_ends() -> None:
    sweep, _ = drive(SweepLimits(budget_ns=60 * SECOND), linear(1, 5))
    assert {len(runs) for runs in sweep.runs.values()} == {20}


def test_what_is_left_of_the_budget_goes_to_the_sizes_nearest_the_knee() -> None:
    # risen after 3.3 s, 6 runs of each; 128 and 64 rows fill up in 3.0 s; 2.6 are left for 256,
    # and a scrap for 16
    sweep, _ = drive(SweepLimits(budget_ns=9 * SECOND), linear(1, 5))
    counts = {rows: len(runs) for rows, runs in sweep.runs.items()}
    knee = knee_rows({rows: runs[0] for rows, runs in sweep.runs.items()})
    assert knee == 128
    assert [counts[rows] for rows in (16, 32, 64, 128, 256)] == [6, 5, 20, 20, 15]


def test_a_budget_that_is_spent_makes_the_rise_hasty_and_does_not_end_it() -> None:
    sweep, asked = drive(SweepLimits(budget_ns=0), linear(10, 50))
    assert list(sweep.runs) == list(POWERS_OF_TWO)
    assert set(Counter(asked).values()) == {3}


def test_it_ends_close_to_its_budget() -> None:
    for budget_ns in (4 * SECOND, 10 * SECOND):
        _, asked = drive(SweepLimits(budget_ns=budget_ns), linear(1, 5))
        assert sum(map(linear(1, 5), asked)) <= budget_ns


def test_a_size_that_fails_ends_the_rise_and_is_forgotten() -> None:
    sweep, asked = drive(SweepLimits(budget_ns=SECOND), linear(1, 5), fails_from=32)
    assert list(sweep.runs) == [1, 2, 4, 8, 16]
    assert asked.count(32) == 1


def test_a_size_that_fails_after_some_runs_is_forgotten_too() -> None:
    sweep = Sweep(SweepLimits(budget_ns=SECOND, sizes=(1, 2)), now_ns=0)
    while sweep.next_rows(0) == 1:
        sweep.on_run(1, MS, 0)
    for _ in range(2):
        sweep.on_run(2, MS, 0)
    assert list(sweep.runs) == [1, 2]
    sweep.on_failed(2)
    assert list(sweep.runs) == [1]
    assert sweep.next_rows(0) == 1


def test_a_model_that_runs_nothing_leaves_nothing_to_do() -> None:
    sweep, asked = drive(SweepLimits(budget_ns=SECOND), linear(1, 5), fails_from=1)
    assert asked == [1]
    assert sweep.runs == {}


@pytest.mark.parametrize(
    ("profile", "knee"), [("linear:1:5", 128), ("linear:5:0", 1), ("linear:0:5", 256)]
)
def test_the_knee_is_the_least_size_with_97_percent_of_the_best_throughput(
    profile: str, knee: int
) -> None:
    mean_ns = load_profile(profile).mean_ns
    assert knee_rows({rows: mean_ns(rows) for rows in POWERS_OF_TWO}) == knee
