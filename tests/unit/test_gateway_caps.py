from tidegate.units import Nanoseconds
from tidegate_realtime.api.caps import cap_numbers
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.pace import Pace

MS = 1_000_000


def measured(objective_ms: int, memory_rows: int | None = None) -> Pace:
    """One row takes 10 ms and each further one 1 ms."""
    model = LatencyModel(percentile=0.99, sizes=(1, 2, 4, 8, 16, 32))
    for rows in (1, 2, 4, 8, 16, 32):
        model.observe(rows, (9 + rows) * MS, Nanoseconds(0))
    return Pace(
        model,
        objective_ns=Nanoseconds(objective_ms * MS),
        overhead=None,
        executors=1,
        limits=BatchLimits(memory_rows=memory_rows),
    )


def test_each_bound_is_told_and_which_of_them_is_the_cap() -> None:
    assert cap_numbers(measured(40)) == (16, 8, 8, 32, 32, 1, "slo")
    assert cap_numbers(measured(1_000, memory_rows=4)) == (4, 4, 32, 32, 4, 1, "memory")
    assert cap_numbers(measured(1_000)) == (32, 32, 32, 32, 32, 1, "measured")


def test_a_model_that_is_too_slow_for_its_objective_runs_row_by_row() -> None:
    assert cap_numbers(measured(5)) == (1, 1, 0, 1, 1, 1, "too_slow")


def test_without_a_promise_the_cap_is_the_one_that_was_set() -> None:
    pace = Pace(None, objective_ns=None, overhead=None, executors=1, limits=BatchLimits(cap_rows=7))
    assert cap_numbers(pace) == (7, 7, 7, 7, 7, 1, "set")
