"""The simulator against theory: before these hold, nothing else that it says means anything."""

import heapq

import numpy as np
import pytest

from tests.fixtures.simulations import instants, poisson, simulate
from tidegate_loadtest.simulate.recording import Recording

INOUE = {
    ("V100", 0.1438, 1.8874): {0.1: 3.2982, 0.3: 4.2262, 0.5: 5.9019, 0.7: 9.8176, 0.9: 29.4084},
    ("P4", 0.5833, 1.4284): {0.1: 2.4322, 0.3: 3.7980, 0.5: 5.2574, 0.7: 8.6860, 0.9: 25.8775},
}
"""Bound on the mean latency in ms, by load λα (arXiv 1912.06322, evaluated)."""
MEAN_ROWS = {"V100": {0.1: 1.71, 0.5: 13.1, 0.9: 115}, "P4": {0.1: 1.05, 0.5: 2.64, 0.9: 21.5}}


def inoue_ms(alpha: float, tau: float, load: float) -> float:
    rate = load / alpha
    first = (1 + 2 * rate * tau + (1 - rate * tau) / (1 + load)) * (alpha + tau)
    second = 3 * tau / (2 * (1 - load)) + alpha / 2 * (load + 2) / (1 - load**2)
    return min(first / (2 * (1 - load)), second)


@pytest.mark.parametrize(
    ("name", "alpha", "tau", "load"),
    [(*profile, load) for profile, bounds in INOUE.items() for load in bounds],
)
def test_batches_without_limit_stay_at_the_bound_on_their_mean(
    name: str, alpha: float, tau: float, load: float
) -> None:
    assert inoue_ms(alpha, tau, load) == pytest.approx(INOUE[name, alpha, tau][load], abs=5e-5)
    # At high load batches are correlated for long, so that a mean needs more of them.
    requests = 200_000 if load == 0.9 else 60_000
    traffic = poisson(f"linear:{alpha}:{tau}", rate_rps=1_000 * load / alpha, requests=requests)
    result, _ = simulate("greedy", traffic)
    assert result.mean_ms is not None
    # At the load that was drawn: at 0.9 half a percent more is five percent more latency.
    assert 0.92 <= result.mean_ms / inoue_ms(alpha, tau, result.offered_rps * alpha / 1e3) <= 1.03
    if load in MEAN_ROWS[name]:
        assert result.mean_batch_rows == pytest.approx(MEAN_ROWS[name][load], rel=0.08)


def md1_ratio(load: float, requests: int) -> float:
    """Return the mean wait by what theory says, for a service of 1 ms and the load as drawn."""
    result, _ = simulate("none", poisson("linear:0:1", rate_rps=1_000 * load, requests=requests))
    assert result.mean_ms is not None
    drawn = result.offered_rps / 1_000
    assert drawn == pytest.approx(load, rel=0.01)
    assert result.utilisation == pytest.approx(drawn, rel=0.001)
    return (result.mean_ms - 1) / (drawn / (2 * (1 - drawn)))


@pytest.mark.parametrize(("load", "within"), [(0.3, 0.02), (0.6, 0.02), (0.9, 0.03)])
def test_one_by_one_waits_as_an_m_d_1_queue(load: float, within: float) -> None:
    assert md1_ratio(load, 150_000) == pytest.approx(1, rel=within)


@pytest.mark.long
@pytest.mark.parametrize(("load", "within"), [(0.3, 0.005), (0.6, 0.005), (0.9, 0.025)])
def test_a_million_requests_wait_as_an_m_d_1_queue(load: float, within: float) -> None:
    assert md1_ratio(load, 1_000_000) == pytest.approx(1, rel=within)


def ends_ns(recording: Recording) -> list[int]:
    by_arrival = np.argsort(recording.answered_at_ns, kind="stable")
    return [recording.answered_ended_ns[place] for place in by_arrival]


@pytest.mark.parametrize("executors", [1, 3])
def test_one_by_one_is_lindleys_recursion_to_the_nanosecond(executors: int) -> None:
    traffic = poisson("linear:0:5", rate_rps=190 * executors, requests=5_000, executors=executors)
    _, recording = simulate("none", traffic)
    free_ns = [0] * executors
    expected = []
    for at_ns in instants(traffic).tolist():
        end_ns = max(at_ns, heapq.heappop(free_ns)) + 5_000_000
        heapq.heappush(free_ns, end_ns)
        expected.append(end_ns)
    assert ends_ns(recording) == expected


def test_greedy_is_the_bulk_queue_to_the_nanosecond() -> None:
    traffic = poisson("linear:1:5", rate_rps=700, requests=5_000)
    _, recording = simulate("greedy", traffic)
    at_ns = instants(traffic)
    expected: list[int] = []
    now_ns = 0
    while len(expected) < at_ns.size:
        start_ns = max(now_ns, int(at_ns[len(expected)]))
        rows = int(np.searchsorted(at_ns, start_ns, side="left")) - len(expected) or 1
        now_ns = start_ns + (5 + rows) * 1_000_000
        expected += [now_ns] * rows
    assert ends_ns(recording) == pytest.approx(expected, abs=1_000)
