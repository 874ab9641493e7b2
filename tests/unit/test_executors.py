"""Calls that nobody waits for and calls that hang, as events in and commands out."""

import pytest

from tidegate.errors import BackendError
from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import (
    Batch,
    Command,
    Fail,
    GiveUp,
    Reject,
    StartBatch,
    Terminate,
    WakeAt,
)
from tidegate_realtime.core.executors import STOOD_STILL_NS
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import IllegalTransitionError, Request, State

NOW = Nanoseconds(0)


def build(*, executors: int = 1, row_ms: int = 1) -> MicroBatcher:
    """One row takes twice ``row_ms``, each more takes it once."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 9):
        model.observe(rows, (1 + rows) * row_ms * NS_PER_MS, NOW)
    return MicroBatcher(
        executors=executors,
        limits=BatchLimits(),
        model=model,
        objective_ns=ms_to_ns(100 * row_ms),
    )


def request(
    within_ms: float = 60_000, *, rows: int = 1, now: int = 0, sheddable: bool = True
) -> Request:
    until = Nanoseconds(now + ms_to_ns(within_ms))
    return Request(rows, (), Nanoseconds(now), until, sheddable=sheddable)


def started(commands: list[Command]) -> Batch:
    (start,) = [command for command in commands if isinstance(command, StartBatch)]
    return start.batch


def kinds(commands: list[Command]) -> list[type[Command]]:
    return [type(command) for command in commands]


def run_one(core: MicroBatcher, within_ms: float = 60_000) -> tuple[Request, Batch]:
    one = request(within_ms)
    return one, started(core.on_arrival(one, NOW))


def woken_at(commands: list[Command]) -> int | None:
    (wake,) = [command for command in commands if isinstance(command, WakeAt)]
    return wake.at_ns


def test_the_last_one_who_leaves_has_the_call_terminated_once() -> None:
    core = build()
    first, running = run_one(core)
    pair = [request(), request()]
    for each in pair:
        core.on_arrival(each, NOW)
    batch = started(core.on_batch_end(running, ms_to_ns(2)))
    assert Terminate not in kinds(core.on_cancel(pair[0], ms_to_ns(3)))
    (command,) = [c for c in core.on_cancel(pair[1], ms_to_ns(3)) if isinstance(c, Terminate)]
    assert command.batch is batch
    assert Terminate not in kinds(core.on_tick(ms_to_ns(4)))
    assert first.state is State.ANSWERED
    assert core.statistics().batches_terminated == 1


def test_a_call_whose_members_all_expire_is_terminated() -> None:
    core = build()
    one, batch = run_one(core, 50)
    commands = core.on_tick(ms_to_ns(50))
    assert one.state is State.EXPIRED
    assert [c.batch for c in commands if isinstance(c, Terminate)] == [batch]


def test_a_failed_piece_terminates_the_other_pieces_of_its_request() -> None:
    core = build(executors=2)
    large = request(rows=14)
    commands = core.on_arrival(large, NOW)
    first, second = [c.batch for c in commands if isinstance(c, StartBatch)]
    commands = core.on_batch_failed(first, BackendError("broken"), ms_to_ns(2), may_rerun=False)
    assert large.state is State.FAILED
    assert [c.batch for c in commands if isinstance(c, Terminate)] == [second]


def test_records_and_probes_keep_their_calls() -> None:
    core = build()
    record = request(1, sheddable=False)
    started(core.on_arrival(record, NOW))
    assert Terminate not in kinds(core.on_tick(ms_to_ns(2)))  # it is late, and still wanted
    core = build()
    refused = request(1.5)
    probed = started(core.on_arrival(refused, NOW))
    assert probed.pieces[0].request.is_probe
    assert Terminate not in kinds(core.on_tick(ms_to_ns(2)))


@pytest.mark.parametrize("fails", [True, False])
def test_a_terminated_call_is_no_failure_however_it_ends(fails: bool) -> None:
    core = build()
    core.on_batch_end(run_one(core)[1], ms_to_ns(2))
    one, batch = run_one(core)
    core.on_cancel(one, ms_to_ns(3))
    if fails:
        commands = core.on_batch_failed(batch, BackendError("terminated"), ms_to_ns(4))
    else:
        commands = core.on_batch_end(batch, ms_to_ns(4))
    assert Fail not in kinds(commands)
    statistics = core.statistics()
    assert (statistics.batches_running, statistics.failed, statistics.poison_rows) == (0, 0, 0)
    _, poison = run_one(core)
    commands = core.on_batch_failed(poison, BackendError("raises"), ms_to_ns(6))
    (fail,) = [command for command in commands if isinstance(command, Fail)]
    assert fail.poison_row == 0  # the batch before the terminated one shows that the model is sound


@pytest.mark.field_fault("S-31")
@pytest.mark.parametrize(("row_ms", "limit_ms"), [(1, 5_000), (200, 30 * 400)])
def test_a_call_is_given_up_after_thirty_times_its_promise_and_five_seconds_at_least(
    row_ms: int, limit_ms: int
) -> None:
    core = build(row_ms=row_ms)
    one, batch = run_one(core)
    limit_ns = batch.hangs_at_ns
    assert limit_ns == pytest.approx(ms_to_ns(limit_ms), rel=0.01)
    assert GiveUp not in kinds(core.on_tick(Nanoseconds(limit_ns - 1)))
    commands = core.on_tick(limit_ns)
    assert kinds(commands)[:2] == [Fail, GiveUp]
    assert one.state is State.FAILED
    assert core.statistics().executors_usable == 0
    with pytest.raises(IllegalTransitionError, match="that was not running"):
        core.on_batch_end(batch, limit_ns)


def test_the_batcher_is_woken_for_a_call_that_hangs() -> None:
    core = build()
    one, batch = run_one(core, 50)
    commands = core.on_tick(ms_to_ns(50))
    assert one.state is State.EXPIRED
    assert woken_at(commands) == batch.hangs_at_ns


def test_without_an_executor_whoever_may_be_refused_is_and_the_others_wait() -> None:
    core = build()
    _, batch = run_one(core)
    now = batch.hangs_at_ns
    core.on_tick(now)
    (reject,) = [c for c in core.on_arrival(request(now=now), now) if isinstance(c, Reject)]
    assert reject.code == "backend_unavailable"
    record = request(now=now, sheddable=False)
    assert StartBatch not in kinds(core.on_arrival(record, now))
    assert not core.is_available
    batch = started(core.on_executor_change(+1, now))
    assert batch.pieces[0].request is record
    assert core.is_available
    assert core.statistics().executors_given_up == 1


def test_an_executor_that_leaves_lets_its_call_end_and_takes_no_other() -> None:
    core = build(executors=2)
    one, batch = run_one(core)
    core.on_executor_change(-1, NOW)
    core.on_executor_change(-1, NOW)
    assert not core.is_available
    waiting = request(sheddable=False)
    assert StartBatch not in kinds(core.on_arrival(waiting, NOW))
    assert StartBatch not in kinds(core.on_batch_end(batch, ms_to_ns(2)))
    assert one.state is State.ANSWERED
    assert started(core.on_executor_change(+1, ms_to_ns(3))).pieces[0].request is waiting


def test_a_process_that_stood_still_gives_up_no_call_for_it() -> None:
    core = build()
    one, batch = run_one(core)
    woke = Nanoseconds(batch.hangs_at_ns + STOOD_STILL_NS + 1)  # as after a minute in a debugger
    commands = core.on_tick(woke)
    assert GiveUp not in kinds(commands)
    assert woken_at(commands) == batch.hangs_at_ns == woke + 5 * NS_PER_SECOND
    core.on_batch_end(batch, woke)
    assert one.state is State.ANSWERED


def test_parts_of_a_failed_batch_go_on_when_one_of_them_hangs() -> None:
    core = build()
    _, running = run_one(core)
    requests = [request() for _ in range(4)]
    for each in requests:
        core.on_arrival(each, NOW)
    batch = started(core.on_batch_end(running, ms_to_ns(2)))
    part = started(core.on_batch_failed(batch, BackendError("raises"), ms_to_ns(8)))
    core.on_tick(part.hangs_at_ns)
    other = started(core.on_executor_change(+1, part.hangs_at_ns))
    core.on_batch_end(other, part.hangs_at_ns)
    states = [each.state for each in requests]
    assert (states.count(State.FAILED), states.count(State.ANSWERED)) == (2, 2)
