"""Promising less surely rather than nothing: when, to what, and the way back."""

import pytest

from tidegate.units import Nanoseconds, ms_to_ns, seconds_to_ns
from tidegate_realtime.core.cap import Cap, Infeasible
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import Plan
from tidegate_realtime.core.relenting import HELD_NS
from tidegate_realtime.core.usual_rows import WINDOW, UsualRows

OBJECTIVE_MS = 50


class Serving:
    """One model that serves one row at a time."""

    def __init__(self, *, ms: float = 5) -> None:
        self.now_ns = Nanoseconds(0)
        self.model = LatencyModel(percentile=0.99, sizes=(1,))
        for _ in range(10):
            self.model.observe(1, ms_to_ns(ms), self.now_ns)
        objective_ns = Nanoseconds(ms_to_ns(OBJECTIVE_MS))
        self.pace = Pace(self.model, objective_ns, None, executors=1, limits=BatchLimits())

    def run(self, calls: int, *, every: int = 1, slow_ms: float = 5, ms: float = 5) -> None:
        """End calls, of which one in so many takes ``slow_ms``."""
        for call in range(calls):
            took_ms = slow_ms if call % every == every - 1 else ms
            self.now_ns = Nanoseconds(self.now_ns + ms_to_ns(took_ms))
            self.pace.learn(1, ms_to_ns(took_ms), self.now_ns)

    @property
    def promises(self) -> bool:
        """Whether one row that finds the executor idle is promised an answer."""
        objective_ns = ms_to_ns(OBJECTIVE_MS)
        plan = Plan(self.pace, [(0, 0.0)], most_rows=1)
        return plan.promise_rows(1, plan.start, objective_ns) == 1


def test_where_three_calls_in_a_hundred_stall_answers_are_promised_at_p95() -> None:
    serving = Serving()
    serving.run(300, every=33, slow_ms=80)
    assert serving.model.percentile == 0.95
    assert serving.promises
    assert isinstance(serving.pace.cap, Cap)
    assert serving.model.tail_ns(1) < ms_to_ns(10)
    assert serving.pace.z == pytest.approx(1.64, abs=0.01)


@pytest.mark.parametrize(("every", "percentile"), [(12, 0.9), (6, 0.75), (3, 0.5)])
def test_the_more_calls_stall_the_less_is_promised(every: int, percentile: float) -> None:
    serving = Serving()
    serving.run(600, every=every, slow_ms=80)
    assert serving.model.percentile == percentile
    assert serving.promises


def test_the_objectives_own_percentile_returns_when_it_can_be_kept_again() -> None:
    serving = Serving()
    serving.run(300, every=33, slow_ms=80)
    began_ns = serving.now_ns
    serving.run(50)
    assert serving.model.percentile == 0.95
    while serving.now_ns < began_ns + 2 * HELD_NS:
        serving.run(10)
    assert serving.model.percentile == 0.99
    assert serving.pace.z == pytest.approx(2.33, abs=0.01)


def test_a_model_that_is_too_slow_even_for_half_of_its_calls_promises_nothing_until_it_is_not() -> (
    None
):
    serving = Serving()
    serving.run(600, ms=80, slow_ms=80)
    assert isinstance(serving.pace.cap, Infeasible)
    assert not serving.promises
    while serving.now_ns < 600 * ms_to_ns(80) + 2 * HELD_NS:
        serving.run(10)
    assert isinstance(serving.pace.cap, Cap)
    assert serving.model.percentile == 0.99


def test_a_model_that_is_too_slow_before_it_serves_is_not_promised_less_of() -> None:
    assert isinstance(Serving(ms=80).pace.cap, Infeasible)


def test_what_is_possible_is_left_as_it_is() -> None:
    serving = Serving()
    serving.run(2_000, every=33, slow_ms=30)
    assert serving.model.percentile == 0.99
    assert serving.now_ns > seconds_to_ns(10)


def test_what_counts_is_a_request_of_usual_size() -> None:
    model = LatencyModel(percentile=0.99, sizes=(1, 8))
    for rows in (1, 8):
        for _ in range(10):
            model.observe(rows, ms_to_ns(rows), Nanoseconds(0))
    objective_ns = Nanoseconds(ms_to_ns(20))
    pace = Pace(model, objective_ns, None, executors=1, limits=BatchLimits())
    for call in range(300):  # p99 is 3 ms for one row, and 24 for 8; p95 is 8
        took_ms = 24 if call % 50 == 49 else 8
        pace.learn(8, ms_to_ns(took_ms), Nanoseconds(0), request_rows=8)
    assert model.tail_ns(1) < objective_ns
    assert model.percentile == 0.95


def test_how_many_rows_a_request_has_is_what_the_latest_had() -> None:
    usual, requests, rows = UsualRows(), 0, 0
    for _ in range(1_000):
        requests, rows = requests + 100, rows + 100
        assert usual.rows(requests, rows) == 1
    for _ in range(5 * WINDOW // 10):
        requests, rows = requests + 10, rows + 640
        usual.rows(requests, rows)
    assert 62 <= usual.rows(requests, rows) <= 64
