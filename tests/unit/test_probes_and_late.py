"""What runs although it was refused, and what runs although it is late."""

from tidegate.errors import BackendError
from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Batch, Command, Forget, Reject, StartBatch
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


def refused_of(commands: list[Command]) -> Reject:
    (reject,) = [command for command in commands if isinstance(command, Reject)]
    return reject


def test_nobody_is_tried_whose_deadline_has_passed() -> None:
    core, now = build(), ms_to_ns(10)
    late = Request(1, (), NOW, ms_to_ns(5))
    commands = core.on_arrival(late, now)
    assert (refused_of(commands).code, refused_of(commands).probe) == ("deadline_unreachable", None)
    assert not [command for command in commands if isinstance(command, StartBatch)]
    assert (core.statistics().probes, core.statistics().rejected) == (0, 1)


def test_an_idle_model_tries_whom_it_refuses_the_more_rarely_the_more_often_it_was_right() -> None:
    core, now = build(), NOW
    tried_ms: list[int] = []
    while now < ms_to_ns(1_000):
        commands = core.on_arrival(Request(1, (), now, Nanoseconds(now + 10)), now)
        if refused_of(commands).probe is not None:
            tried_ms.append(now // NS_PER_MS)
            core.on_batch_end(started(commands), Nanoseconds(now + 10 * NS_PER_MS))
        now = Nanoseconds(now + 10 * NS_PER_MS)
    assert tried_ms == [0, 30, 80, 170, 340, 670]  # 10 ms each, and 20, 40, 80, … between
    assert core.statistics().rejected + core.statistics().probes == 100


def test_who_has_waited_for_the_last_executor_is_refused_when_the_server_shuts_down() -> None:
    core = build()
    running = started(core.on_arrival(Request(1, (), NOW, ms_to_ns(60_000)), NOW))
    waiting = record(0, newest_first=True)
    core.on_arrival(waiting, NOW)
    core.on_tick(running.hangs_at_ns)
    assert waiting.state is State.WAITING  # another executor may come
    commands = core.on_drain(running.hangs_at_ns)
    assert refused_of(commands).request is waiting
    assert refused_of(commands).code == "backend_unavailable"
    statistics = core.statistics()
    assert (statistics.failed, statistics.rejected, statistics.unaccounted) == (1, 1, 0)
    assert (statistics.queue.rows, statistics.waiting, statistics.running) == (0, 0, 0)


def test_a_probe_is_forgotten_once_however_it_ends() -> None:
    core = build()
    large = Request(6, (), NOW, ms_to_ns(100))
    batch = started(core.on_arrival(large, NOW))
    core.on_batch_end(batch, ms_to_ns(7))
    commands = core.on_arrival(Request(9, (), ms_to_ns(8), ms_to_ns(10)), ms_to_ns(8))
    probe = refused_of(commands).probe
    assert probe is not None
    forgotten, now, batches = [], ms_to_ns(9), [started(commands)]
    while batches:  # it fails, and so do its halves
        commands = core.on_batch_failed(batches.pop(), BackendError("no"), now)
        batches += [each.batch for each in commands if isinstance(each, StartBatch)]
        forgotten += [each.probe for each in commands if isinstance(each, Forget)]
        now = Nanoseconds(now + NS_PER_MS)
    assert forgotten == [probe]


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
