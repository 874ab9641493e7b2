from random import Random

import msgspec
import pytest

from tests.fixtures.simulations import capacity_rps, instants, poisson, simulate
from tidegate.profiles import ProfileSampler, load_profile
from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.policies.building import ALL, build_policy
from tidegate_loadtest.simulate.requests import requests_at
from tidegate_loadtest.simulate.result import SimulationResult
from tidegate_loadtest.simulate.running import run_policy
from tidegate_loadtest.simulate.simulator import Simulator


def figures(result: SimulationResult) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(result)
    del found["simulated_requests_per_s"]
    return found


@pytest.mark.parametrize("policy", ALL)
def test_a_seed_and_a_list_of_arrivals_give_the_same_run(policy: str) -> None:
    traffic = poisson("titanx-vgg16", rate_rps=300, requests=2_000)
    (one, first), (again, second) = (simulate(policy, traffic) for _ in range(2))
    assert figures(one) == figures(again)
    assert first.answered_ended_ns == second.answered_ended_ns
    assert first.batch_took_ns == second.batch_took_ns
    assert figures(simulate(policy, traffic, seed=2)[0]) != figures(one)


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("rate_rps", [50, 800, 4_000])
def test_every_arrival_ends_once_and_is_counted_once(policy: str, rate_rps: float) -> None:
    traffic = poisson("p4-resnet50-int8", rate_rps=rate_rps, requests=3_000, slo_ms=10)
    result, recording = simulate(policy, traffic)
    assert result.answered + result.rejected + result.expired == result.arrived == 3_000
    assert 0 <= result.late <= result.answered
    ended = [*recording.answered_at_ns, *recording.rejected_at_ns, *recording.expired_at_ns]
    assert sorted(ended) == instants(traffic).tolist()


def test_probes_test_refusals_and_are_nobodys_requests() -> None:
    traffic = poisson("linear:1.053:5.072", rate_rps=3_000, requests=20_000, slo_ms=50)
    result, recording = simulate("slo", traffic)
    assert 0 < result.probes_in_time <= result.probes < result.rejected / 50
    assert result.answered + result.rejected + result.expired == 20_000
    ran_for_somebody = sum(recording.batch_rows) - result.probes
    assert result.answered <= ran_for_somebody <= result.answered + result.expired


def test_the_figures_of_a_short_run_can_be_counted_by_hand() -> None:
    """Three rows, one executor, 10 ms a row: the second waits 8 ms, the third 16."""
    traffic = poisson("linear:0:10", rate_rps=1, requests=1, slo_ms=25)
    result, recording = run_policy("none", instants(traffic)[:0], traffic)
    assert (result.arrived, result.p99_ms, result.mean_batch_rows) == (0, None, None)
    at_ns = instants(poisson("linear:0:10", rate_rps=1, requests=3)).copy()
    at_ns[:] = [0, 2_000_000, 4_000_000]
    result, recording = run_policy("none", at_ns, traffic)
    assert recording.answered_ended_ns.tolist() == pytest.approx([10e6, 20e6, 30e6], abs=3)
    assert (result.answered, result.late) == (3, 1)
    assert result.missed_ratio == pytest.approx(1 / 3)
    assert result.mean_ms == pytest.approx((10 + 18 + 26) / 3)
    assert result.utilisation == pytest.approx(1)
    assert result.offered_rps == pytest.approx(3 / 0.004)
    assert result.goodput_rps == pytest.approx(2 / 0.020)
    assert result.idle_while_rows_wait == 0


def test_an_executor_that_idles_while_rows_wait_is_seen() -> None:
    traffic = poisson("linear:0:10", rate_rps=1, requests=1)
    at_ns = instants(poisson("linear:0:10", rate_rps=1, requests=2)).copy()
    at_ns[:] = [0, 2_000_000]
    result, _ = run_policy("fixed:8:30", at_ns, traffic)
    assert result.idle_while_rows_wait == pytest.approx(30 / 40)
    assert result.mean_batch_rows == 2


class HangsOnce:
    """5 ms a call, but for the tenth, which takes an hour."""

    calls = 0

    def draw_ns(self, rows: int, now_ns: int) -> int:
        self.calls += 1
        return 3_600 * NS_PER_SECOND if self.calls == 10 else 5 * NS_PER_MS


@pytest.mark.parametrize("executors", [1, 3])
def test_an_executor_whose_call_hangs_is_replaced(executors: int) -> None:
    """Given up after 5 s; whoever was in it fails, and the others are answered as before."""
    traffic = poisson("linear:0:5", rate_rps=100, requests=2_000, slo_ms=50, executors=executors)
    policy = build_policy("slo", traffic.situation)
    simulator = Simulator(policy, HangsOnce(), executors=executors)
    recording = simulator.run(requests_at(instants(traffic), objective_ns=50 * NS_PER_MS))
    assert recording.last_arrival_ns < 30 * NS_PER_SECOND
    assert max(recording.batch_took_ns) == pytest.approx(5 * NS_PER_SECOND, rel=0.01)
    assert 0 < len(recording.failed_at_ns) + len(recording.expired_at_ns) < 20
    lost = len(recording.rejected_at_ns) + 20
    assert len(recording.answered_at_ns) > 2_000 - lost
    assert lost < (550 if executors == 1 else 50)


def test_a_capacity_is_found_from_below_and_from_above() -> None:
    """One row at a time in 10 ms, and 25 to be answered in: about half of 100/s is too much."""
    found = {
        capacity_rps("none", poisson("linear:0:10", rate_rps=rate, requests=4_000, slo_ms=50))
        for rate in (3, 900)
    }
    assert max(found) / min(found) < 1.02
    assert 40 < min(found) < 90


@pytest.mark.parametrize(("rows", "padded"), [(1, 1), (3, 4), (8, 8), (9, 16)])
def test_a_batch_takes_the_time_of_the_size_that_it_is_padded_to(rows: int, padded: int) -> None:
    profile = load_profile("v100-resnet50-clockwork")
    sampler = ProfileSampler(profile, Random(5))
    assert PaddedExecution(profile, seed=5).draw_ns(rows, 0) == sampler.draw_ns(padded, 0)
