from random import Random

import pytest

from tidegate.settings import LatencyObjective
from tidegate_realtime.api.histogram import Histogram
from tidegate_realtime.api.metrics import (
    EndedKey,
    GatewayMetrics,
    OutcomeLabel,
    VersionCounts,
    objective_edges_s,
)


def test_the_objective_is_an_edge() -> None:
    edges = objective_edges_s(LatencyObjective(slo_ms=50))
    assert edges == (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.2, 0.4)
    assert 1 / 3 / 1000 not in edges
    assert objective_edges_s(LatencyObjective(slo_ms=1 / 3))[5] == 0.000333333


def test_a_value_on_an_edge_is_within_it() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    histogram.observe(9, times=2)
    assert histogram.counts == [2, 2, 3]
    assert histogram.total == 25.5


def test_arrivals_are_the_endings_and_what_is_in_flight() -> None:
    metrics = GatewayMetrics()
    metrics.add_version("risk", "1", LatencyObjective(slo_ms=50))
    for model in ("risk", "risk", "unknown"):
        metrics.arrived(model)
    metrics.versions["risk", "1"].on_answer(50_000_000)
    metrics.ended_without_version("unknown", OutcomeLabel.REJECTED, "model_not_found")
    assert metrics.arrivals == {"risk": 2, "unknown": 1}
    assert metrics.in_flight == {"risk": 1, "unknown": 0}
    assert sum(metrics.ended.values()) + sum(metrics.in_flight.values()) == 3
    assert metrics.durations["risk", "1"].counts[5] == 1  # the bucket that ends at the objective


def test_a_version_that_is_loaded_again_goes_on_counting() -> None:
    metrics, version, late = GatewayMetrics(), ("risk", "1"), "deadline_expired"
    for _ in range(2):
        metrics.add_version(*version, LatencyObjective(slo_ms=50))
        metrics.arrived("risk")
        metrics.versions[version].on_end(OutcomeLabel.EXPIRED, late, took_ns=60_000_000)
    assert metrics.ended == {EndedKey(*version, OutcomeLabel.EXPIRED, late): 2}
    assert metrics.in_flight == {"risk": 0}
    assert metrics.stages["risk", "1"].refused.as_json() == {"count": 2, "ns": 120_000_000}
    assert sum(metrics.durations["risk", "1"].counts) == 2


def test_what_the_scheduler_refuses_is_timed_and_what_the_caller_got_wrong_is_not() -> None:
    counts = VersionCounts(LatencyObjective(slo_ms=50))
    for reason in ("queue_full", "malformed_json"):
        counts.on_end(OutcomeLabel.REJECTED, reason, took_ns=1)
    assert sum(counts.refusal_times.counts) == 1
    assert sum(counts.durations.counts) == 0


@pytest.mark.field_fault("S-55")
def test_the_share_above_the_objective_is_the_same_of_replicas_added_up_and_of_all_together() -> (
    None
):
    random, objective = Random(55), LatencyObjective(slo_ms=50)
    replicas = [Histogram(objective_edges_s(objective)) for _ in range(2)]
    took_s = [random.expovariate(30) for _ in range(2_000)]
    for place, each in enumerate(took_s):
        replicas[place % 7 == 0].observe(each)
    within = sum(sum(replica.counts[:6]) for replica in replicas)  # the objective is the sixth edge
    assert within == sum(each <= 0.050 for each in took_s)
    assert sum(sum(replica.counts) for replica in replicas) == len(took_s)
