"""What the shape of traffic does to our own batcher, beyond its mean rate."""

import numpy as np
import pytest

from tests.fixtures.simulations import poisson
from tidegate.profiles import load_profile
from tidegate_loadtest.arrivals.parsing import parse_arrivals
from tidegate_loadtest.arrivals.port import Instants, Span
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.requests import requests_at
from tidegate_loadtest.simulate.running import run_policy
from tidegate_loadtest.simulate.simulator import Simulator
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher


@pytest.mark.field_fault("S-07")
def test_what_queued_behind_a_running_batch_runs_together() -> None:
    """100 ms a call and 500 rows/s for 3 s; bound early, 183 of 1,500 were answered."""
    at_ns: Instants = np.arange(1_500, dtype=np.int64) * 2_000_000
    simulator = Simulator(
        MicroBatcher(executors=1, limits=BatchLimits(cap_rows=64)),
        PaddedExecution(load_profile("linear:0:100"), seed=1),
    )
    recording = simulator.run(requests_at(at_ns, objective_ns=1_000_000_000))
    by_the_end = sum(ended_ns <= 3_000_000_000 for ended_ns in recording.answered_ended_ns)
    assert by_the_end >= 1_400
    assert max(recording.batch_rows) <= 64


@pytest.mark.field_fault("S-17")
def test_the_same_mean_rate_queues_longer_when_it_is_bursty() -> None:
    traffic = poisson("linear:1:5", rate_rps=400, requests=1, slo_ms=1_000)
    means_ms = []
    for kind in ("gamma:400:0.1", "poisson:400", "gamma:400:4"):
        at_ns = parse_arrivals(kind).draw(Span(requests=20_000), seed=1)
        result, _ = run_policy("slo", at_ns, traffic)
        assert result.offered_rps == pytest.approx(400, rel=0.05)
        assert result.mean_ms is not None
        means_ms.append(result.mean_ms)
    uniform, poisson_ms, bursty = means_ms
    assert uniform < poisson_ms < bursty
    assert bursty > 1.5 * uniform
