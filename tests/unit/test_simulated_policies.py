"""What each policy chooses, in situations small enough to count."""

from collections.abc import Sequence

import pytest

from tidegate.errors import SettingError
from tidegate.profiles import load_profile
from tidegate.units import ms_to_ns
from tidegate_loadtest.simulate.policies.aimd import Aimd
from tidegate_loadtest.simulate.policies.building import ALL, Situation, build_policy
from tidegate_loadtest.simulate.policies.mean_regression import MeanRegression
from tidegate_loadtest.simulate.policies.nexus import LazyDrop
from tidegate_loadtest.simulate.policies.port import Policy
from tidegate_realtime.core.commands import Answer, Batch, Command, Expire, StartBatch, WakeAt
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request

NEXUS = "linear:1:25"
"""26 ms for one row, 50 for 25, 125 for 100."""


def policy(name: str, *, profile: str = NEXUS, slo_ms: float = 100, executors: int = 1) -> Policy:
    situation = Situation(
        profile=load_profile(profile), executors=executors, objective_ns=ms_to_ns(slo_ms)
    )
    return build_policy(name, situation)


def arrive(to: Policy, at_ms: float, *, rows: int = 1, slo_ms: float = 100) -> list[Command]:
    at_ns = ms_to_ns(at_ms)
    requests = [Request(1, None, at_ns, ms_to_ns(at_ms + slo_ms)) for _ in range(rows)]
    return [command for request in requests for command in to.on_arrival(request, at_ns)]


def end(of: Policy, batch: Batch, at_ms: float) -> list[Command]:
    return of.on_batch_end(batch, ms_to_ns(at_ms))


def started(commands: Sequence[Command]) -> Batch:
    (batch,) = [command.batch for command in commands if isinstance(command, StartBatch)]
    return batch


def expired(commands: list[Command]) -> int:
    return sum(isinstance(command, Expire) for command in commands)


def test_ours_is_the_gateways_own_batcher() -> None:
    assert isinstance(policy("slo"), MicroBatcher)


@pytest.mark.parametrize(("name", "rows"), [("none", 1), ("greedy", 39), ("fixed:8:5", 8)])
def test_how_many_of_those_that_wait_go_when_the_executor_is_free(name: str, rows: int) -> None:
    queue = policy(name)
    commands = arrive(queue, 0, rows=40)
    first = started([command for command in commands if isinstance(command, StartBatch)][:1])
    commands = end(queue, first, 90)
    assert started(commands).rows == min(rows, 40 - first.rows)
    assert isinstance(commands[-1], Answer)


def test_a_batch_of_size_or_time_goes_when_it_is_full() -> None:
    queue = policy("fixed:3:5")
    waiting = [*arrive(queue, 0), *arrive(queue, 1)]
    assert all(isinstance(command, WakeAt) for command in waiting)
    assert started(arrive(queue, 2)).rows == 3


def test_a_batch_of_size_or_time_goes_when_its_oldest_has_waited() -> None:
    queue = policy("fixed:3:5")
    (wake,) = arrive(queue, 0)
    assert isinstance(wake, WakeAt)
    assert wake.at_ns == ms_to_ns(5)
    arrive(queue, 4)
    assert started(queue.on_tick(ms_to_ns(5))).rows == 2


def test_no_batch_is_larger_than_what_was_measured() -> None:
    largest = load_profile("v100-resnet50-clockwork").largest_size
    for name in ("greedy", "fixed:999:0", "early-drop", "lazy-drop", "mean-regression", "slo"):
        queue = policy(name, profile="v100-resnet50-clockwork", slo_ms=1_000)
        first = started(arrive(queue, 0))
        arrive(queue, 0, rows=100, slo_ms=1_000)
        assert started(end(queue, first, 4)).rows <= (largest or 0), name


def test_additive_increase_and_multiplicative_decrease() -> None:
    queue = policy("aimd", slo_ms=30)
    assert isinstance(queue, Aimd)
    batch = started(arrive(queue, 0))
    arrive(queue, 0, rows=100)
    for expected, took_ms in [(2, 26), (3, 27), (4, 28), (5, 29), (6, 30), (5, 31)]:
        now_ms = (batch.pieces[0].request.started_at_ns or 0) / 1e6 + took_ms
        batch = started(end(queue, batch, now_ms))
        assert queue.limit_rows == expected
        assert batch.rows == expected


def test_a_batch_that_was_not_full_says_nothing_about_a_larger_one() -> None:
    queue = policy("aimd", slo_ms=30)
    assert isinstance(queue, Aimd)
    end(queue, started(arrive(queue, 0)), 26)
    end(queue, started(arrive(queue, 50)), 76)
    assert queue.limit_rows == 2


def test_half_of_the_objective_is_a_batch_of_nexus() -> None:
    queue = policy("lazy-drop")
    assert isinstance(queue, LazyDrop)
    assert queue.best_rows == 25


@pytest.mark.parametrize(("name", "dropped", "rows"), [("lazy-drop", 0, 5), ("early-drop", 30, 25)])
def test_lazy_keeps_the_oldest_and_early_keeps_the_batch(
    name: str, dropped: int, rows: int
) -> None:
    """70 ms after their arrival 30 rows have 30 ms left, enough for 5 of them."""
    queue = policy(name)
    first = started(arrive(queue, 0))
    arrive(queue, 0, rows=30)
    arrive(queue, 60, rows=30)
    commands = end(queue, first, 70)
    assert expired(commands) == dropped
    assert started(commands).rows == rows


@pytest.mark.parametrize("name", ["lazy-drop", "early-drop"])
def test_who_cannot_make_it_even_alone_is_dropped(name: str) -> None:
    queue = policy(name)
    first = started(arrive(queue, 0))
    arrive(queue, 1)
    commands = end(queue, first, 80)
    assert expired(commands) == 1
    assert not any(isinstance(command, StartBatch) for command in commands)


def test_a_line_through_the_means_drops_what_it_would_miss() -> None:
    queue = policy("mean-regression", slo_ms=60)
    assert isinstance(queue, MeanRegression)
    batch = started(arrive(queue, 0))
    arrive(queue, 0, rows=20)
    batch = started(end(queue, batch, 26))  # one sample: no slope yet
    assert batch.rows == 20
    arrive(queue, 40, rows=50)
    commands = end(queue, batch, 26 + 45)  # now a = 1 and b = 25: 31 + n + 25 < 60
    assert expired(commands) == 47
    assert started(commands).rows == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fastest", "policy 'fastest' is none of: slo, none, fixed:ROWS:MS, greedy"),
        ("fixed", "none of"),
        ("fixed:8", "expected fixed:ROWS:MS"),
        ("fixed:many:5", "expected fixed:ROWS:MS"),
        ("fixed:0:5", "ROWS must be 1 or more"),
        ("fixed:8:-1", "MS 0 or more"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(name: str, says: str) -> None:
    with pytest.raises(SettingError) as refusal:
        policy(name)
    assert says in str(refusal.value)


@pytest.mark.parametrize("name", ALL)
def test_a_caller_who_leaves_the_queue_takes_no_place_in_a_batch(name: str) -> None:
    queue = policy(name)
    commands = arrive(queue, 0)
    first = started([*commands, *queue.on_tick(ms_to_ns(5))])
    waiting = [Request(1, None, ms_to_ns(6), ms_to_ns(106)) for _ in range(2)]
    for request in waiting:
        queue.on_arrival(request, ms_to_ns(6))
    queue.on_cancel(waiting[0], ms_to_ns(7))
    commands = end(queue, first, 32)
    assert [piece.request for piece in started(commands).pieces] == [waiting[1]]
