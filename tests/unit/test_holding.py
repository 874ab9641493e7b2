"""Rows that are held for company although an executor is idle, and when the batcher is woken."""

from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Command, StartBatch, WakeAt
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.turns import Turns

NOW = Nanoseconds(0)


def build() -> MicroBatcher:
    """Two executors, and a load of 100 rows/s that asks for batches of 4."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 9):
        model.observe(rows, (1 + rows) * NS_PER_MS, NOW)
    core = MicroBatcher(executors=2, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(200))
    core.pace.need_rows, core.pace.rows_per_second = 4, 100.0  # as if it had been seen
    return core


def arrive(core: MicroBatcher, at_ms: float) -> tuple[Request, list[Command]]:
    now = ms_to_ns(at_ms)
    request = Request(1, (), now, Nanoseconds(now + ms_to_ns(200)))
    return request, core.on_arrival(request, now)


def woken_at(commands: list[Command]) -> int | None:
    (wake,) = [command for command in commands if isinstance(command, WakeAt)]
    return wake.at_ns


def test_company_that_comes_brings_the_end_of_the_wait_forward_and_the_timer_with_it() -> None:
    core = build()
    _, commands = arrive(core, 0)
    assert woken_at(commands) == ms_to_ns(30)  # until 3 more are expected
    _, commands = arrive(core, 1)
    assert woken_at(commands) == ms_to_ns(21)
    (start,) = [c for c in core.on_tick(ms_to_ns(21)) if isinstance(c, StartBatch)]
    assert (start.batch.rows, start.batch.reason) == (2, "waited")


def test_rows_whose_executor_another_model_took_are_woken_for_their_deadline() -> None:
    turns, core, other = Turns(1), build(), build()
    core.share(turns)
    other.share(turns)
    other.pace.need_rows = 1
    held, commands = arrive(core, 0)
    assert woken_at(commands) == ms_to_ns(30)
    _, commands = arrive(other, 1)
    (start,) = [command for command in commands if isinstance(command, StartBatch)]
    due = held.deadline_at_ns - core.pace.margin_ns
    assert woken_at(core.on_tick(ms_to_ns(30))) == due
    other.on_batch_end(start.batch, ms_to_ns(31))
    assert turns.next_seat(ms_to_ns(31)) is core.seat
    assert [c for c in core.on_tick(ms_to_ns(31)) if isinstance(c, StartBatch)]
    assert held.state is State.RUNNING
