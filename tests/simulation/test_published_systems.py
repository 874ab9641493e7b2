"""What the papers of other systems say of their policies, in shape."""

import pytest

from tests.fixtures.simulations import capacity_rps, poisson, simulate
from tidegate.profiles import LatencyProfile, load_profile

SYMPHONY = "linear:1.053:5.072"
"""ResNet50 on a 1080Ti, eight of them, 25 ms (arXiv 2308.07470)."""
OBJECTIVE_NS = 25_000_000
UNCOORDINATED_RPS, STAGGERED_RPS = 4_500.5, 5_839.4


def bound_rps(profile: LatencyProfile, *, waits: float) -> float:
    """Return the rate of eight executors whose callers wait for ``waits`` of a batch, and ride."""
    rows = max(b for b in range(1, 64) if (1 + waits) * profile.mean_ns(b) <= OBJECTIVE_NS)
    return 8 * rows / profile.mean_ns(rows) * 1e9


def test_symphonys_two_bounds_come_from_its_profile() -> None:
    profile = load_profile(SYMPHONY)
    assert bound_rps(profile, waits=1) == pytest.approx(UNCOORDINATED_RPS, abs=0.05)
    assert bound_rps(profile, waits=1 / 8) == pytest.approx(STAGGERED_RPS, abs=0.05)


@pytest.mark.parametrize("policy", ["greedy", "aimd", "early-drop"])
def test_eager_batches_stay_below_the_bound_without_coordination(policy: str) -> None:
    at_the_bound = poisson(
        SYMPHONY, rate_rps=UNCOORDINATED_RPS, requests=40_000, slo_ms=25, executors=8
    )
    assert simulate(policy, at_the_bound)[0].in_objective_ratio < 0.99


def test_ours_passes_the_bound_without_coordination() -> None:
    above = poisson(
        SYMPHONY, rate_rps=UNCOORDINATED_RPS + 100, requests=20_000, slo_ms=25, executors=8
    )
    assert simulate("slo", above)[0].in_objective_ratio >= 0.99


def test_no_policy_passes_the_bound_of_perfect_staggering() -> None:
    above = poisson(SYMPHONY, rate_rps=STAGGERED_RPS, requests=20_000, slo_ms=25, executors=8)
    for policy in ("slo", "fixed:16:8", "mean-regression", "early-drop", "lazy-drop"):
        assert simulate(policy, above)[0].in_objective_ratio < 0.99


NEXUS = {
    1.0: ((351, 388), (432, 441)),
    1.2: ((367, 402), (440, 449)),
    1.4: ((363, 415), (447, 458)),
    1.6: ((389, 428), (456, 467)),
    1.8: ((430, 450), (467, 478)),
}
"""Alpha in ms, and the ranges of capacity that were simulated elsewhere: lazy, then early (SOSP'19,
section 4.3: one server, 100 ms, beta = 50 - 25 * alpha, so that batches of 25 give 500/s)."""


def nexus(alpha: float, requests: int) -> tuple[float, float]:
    traffic = poisson(f"linear:{alpha}:{50 - 25 * alpha}", rate_rps=440, requests=requests)
    return capacity_rps("lazy-drop", traffic), capacity_rps("early-drop", traffic)


@pytest.mark.parametrize("alpha", [1.0, 1.8])
def test_early_drop_is_worth_more_where_batching_is(alpha: float) -> None:
    lazy, early = nexus(alpha, 20_000)
    assert 1.02 <= early / lazy <= 1.26
    assert early <= 500


@pytest.mark.long
@pytest.mark.parametrize("alpha", NEXUS)
def test_both_ways_to_drop_have_their_published_capacity(alpha: float) -> None:
    lazy, early = nexus(alpha, 40_000)
    (lazy_low, lazy_high), (early_low, early_high) = NEXUS[alpha]
    assert lazy_low * 0.98 <= lazy <= lazy_high * 1.02
    assert early_low * 0.98 <= early <= early_high * 1.02
    assert 1.02 <= early / lazy <= 1.26


@pytest.mark.parametrize(
    ("profile", "mean_rows", "gain"),
    [("cpu-sklearn-random-forest", (450, 570), 70.0), ("cpu-sklearn-kernel-svm", (1, 6), 0.9)],
)
def test_clippers_additive_increase_finds_its_batch_by_missing_the_objective(
    profile: str, mean_rows: tuple[float, float], gain: float
) -> None:
    """NSDI'17, figure 4: 72 times as many for a random forest, none for a kernel SVM."""
    alone_rps = 1e9 / load_profile(profile).mean_ns(1)
    traffic = poisson(profile, rate_rps=300 * alone_rps, requests=300_000, slo_ms=20)
    result, recording = simulate("aimd", traffic)
    half = len(recording.batch_rows) // 2
    batches_rows, batches_ns = recording.batch_rows[half:], recording.batch_took_ns[half:]
    assert mean_rows[0] <= sum(batches_rows) / len(batches_rows) <= mean_rows[1]
    assert sum(batches_rows) / sum(batches_ns) * 1e9 >= gain * alone_rps
    assert max(batches_ns) > 20_000_000
    assert result.late > 0
