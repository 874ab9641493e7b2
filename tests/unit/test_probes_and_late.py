"""What runs although it was refused, and what runs although it is late."""

from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Batch, Command, Reject, StartBatch
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State

NOW = Nanoseconds(0)


def build() -> MicroBatcher:
    """One row takes 2 ms, each more 1 ms; a batch has at most 7 rows at 100 ms."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 9):
        model.observe(rows, (1 + rows) * NS_PER_MS, NOW)
    return MicroBatcher(executors=1, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(100))


def started(commands: list[Command]) -> Batch:
    (start,) = [command for command in commands if isinstance(command, StartBatch)]
    return start.batch


def record(now: int, *, newest_first: bool) -> Request:
    deadline = Nanoseconds(now + ms_to_ns(1))  # which nobody can meet
    return Request(1, (), Nanoseconds(now), deadline, sheddable=False, is_newest_first=newest_first)


def in_order_of_execution(core: MicroBatcher, requests: list[Request]) -> list[int]:
    """Let all of them arrive while a batch runs, and list whom each later batch holds."""
    batch = started(core.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    for each in requests:
        core.on_arrival(each, each.arrived_at_ns)
    now, order = ms_to_ns(50), []
    while any(each.state is not State.ANSWERED for each in requests):
        batch = started(core.on_batch_end(batch, now))
        numbers = [requests.index(piece.request) for piece in batch.pieces]
        assert numbers == sorted(numbers)  # inside a batch, by deadline
        order.append(numbers)
        now = Nanoseconds(now + ms_to_ns(10))
        if sum(map(len, order)) == len(requests):
            core.on_batch_end(batch, now)
    return [number for numbers in order for number in numbers]


def test_of_best_effort_callers_that_are_late_who_came_last_goes_first() -> None:
    core = build()
    requests = [record(place, newest_first=True) for place in range(20)]
    order = in_order_of_execution(core, requests)
    cap = core.pace.cap_rows
    assert set(order[:cap]) == set(range(20 - cap, 20))
    assert sorted(order) == list(range(20))  # the others come when there is time
    assert core.statistics().late == 20


def test_late_records_of_a_stream_keep_their_order() -> None:
    requests = [record(place, newest_first=False) for place in range(20)]
    assert in_order_of_execution(build(), requests) == list(range(20))


def test_the_statistics_of_late_ones_name_the_earliest_deadline_all_the_same() -> None:
    core = build()
    core.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW)
    for place in range(3):
        core.on_arrival(record(place, newest_first=True), Nanoseconds(place))
    queue = core.statistics().queue
    assert queue.earliest_deadline_at_ns == ms_to_ns(1)
    assert queue.waiting_since_ns == 0


def test_a_probe_has_no_more_rows_than_a_batch_and_then_judges_no_refusal() -> None:
    core = build()
    refused = Request(300, (), NOW, ms_to_ns(50), size_bytes=9)
    commands = core.on_arrival(refused, NOW)  # nothing else runs, so it is tried
    (reject,) = [command for command in commands if isinstance(command, Reject)]
    assert reject.probe is not None
    cap = core.pace.cap_rows
    batch = started(commands)
    assert batch.rows == reject.probe.rows == cap < 300
    commands = core.on_batch_end(batch, ms_to_ns(8))
    assert not [command for command in commands if isinstance(command, StartBatch)]
    statistics = core.statistics()
    assert (statistics.probes, statistics.probes_ended, statistics.probes_in_time) == (1, 0, 0)
    assert (statistics.unaccounted, statistics.queue.rows) == (0, 0)
    assert core.pace.model is not None
    assert core.pace.model.statistics().samples_by_size[cap] == 2  # it has taught all the same
