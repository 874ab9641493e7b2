"""Single rules of the scheduler, each on a batcher whose execution times are exact."""

import pytest

from tidegate.errors import BackendError
from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Batch, Command, Expire, Fail, Reject, StartBatch, WakeAt
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State

NOW = Nanoseconds(0)


def at_ms(milliseconds: float) -> Nanoseconds:
    return ms_to_ns(milliseconds)


def build(
    *,
    executors: int = 1,
    objective_ms: float = 100,
    largest: int = 8,
    limits: BatchLimits | None = None,
) -> MicroBatcher:
    """One row takes 2 ms, each more 1 ms."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, largest + 1):
        model.observe(rows, (1 + rows) * NS_PER_MS, NOW)
    return MicroBatcher(
        executors=executors,
        limits=limits or BatchLimits(),
        model=model,
        objective_ns=ms_to_ns(objective_ms),
    )


def request(
    within_ms: float = 100,
    *,
    rows: int = 1,
    now: Nanoseconds = NOW,
    priority: int = 2,
    sheddable: bool = True,
    size_bytes: int = 0,
) -> Request:
    deadline = Nanoseconds(now + ms_to_ns(within_ms))
    return Request(rows, (), now, deadline, priority, sheddable, size_bytes)


def started(commands: list[Command]) -> Batch:
    (start,) = [command for command in commands if isinstance(command, StartBatch)]
    return start.batch


def refusal(commands: list[Command]) -> Reject:
    (reject,) = [command for command in commands if isinstance(command, Reject)]
    return reject


def occupy(core: MicroBatcher) -> Batch:
    """Let a batch of 2 ms run."""
    return started(core.on_arrival(request(), NOW))


def queue(core: MicroBatcher, count: int, **kind: int) -> list[Request]:
    requests = [request(90, **kind) for _ in range(count)]  # type: ignore[arg-type] # as request
    for each in requests:
        assert not any(isinstance(c, Reject) for c in core.on_arrival(each, NOW))
    return requests


@pytest.mark.field_fault("S-13", "S-21")
def test_what_cannot_be_answered_is_refused_with_the_figures() -> None:
    core = build()
    occupy(core)
    queue(core, 10)
    reject = refusal(core.on_arrival(request(95, rows=300), NOW))
    assert (reject.code, reject.rows_ahead) == ("deadline_unreachable", 10)
    # 310 rows in batches of 7, of which the last has 2 and takes 3 ms, after the one that runs
    assert reject.predicted_ns is not None
    assert reject.predicted_ns == pytest.approx(at_ms(2 + 44 * 8 + 3))
    assert reject.retry_after_ns == reject.predicted_ns - at_ms(95)
    assert core.statistics().rejected_by_code["deadline_unreachable"] == 1


def test_a_request_that_would_make_another_late_is_refused() -> None:
    core = build()
    occupy(core)
    for _ in range(7):  # they ride at 2 ms in a batch that takes 8
        assert not [c for c in core.on_arrival(request(10.5), NOW) if isinstance(c, Reject)]
    reject = refusal(core.on_arrival(request(10.2), NOW))  # it would have been in time
    assert reject.predicted_ns == pytest.approx(at_ms(4))


@pytest.mark.field_fault("S-31")
def test_while_every_call_hangs_new_requests_are_refused_at_once() -> None:
    core = build()
    occupy(core)
    late = at_ms(26)  # 2 ms were expected, and a quarter of the objective is no hiccup any more
    assert refusal(core.on_arrival(request(now=late), late)).code == "backend_unavailable"
    assert core.pace.model is not None
    assert core.pace.model.statistics().samples_by_size[1] == 2  # one of them a lower bound


@pytest.mark.field_fault("S-43")
def test_bytes_are_bounded_as_rows_are() -> None:
    core = build(limits=BatchLimits(queue_limit_bytes=100))
    occupy(core)
    queue(core, 2, size_bytes=50)
    assert refusal(core.on_arrival(request(size_bytes=1), NOW)).code == "queue_full"
    core.on_cancel(request_in_queue := queue(core, 1, size_bytes=0)[0], NOW)
    assert request_in_queue.state is State.CANCELLED


@pytest.mark.field_fault("S-45")
def test_classes_share_the_executor_sixteen_to_four_to_one() -> None:
    core = build(objective_ms=100_000)
    running = occupy(core)
    by_class = {
        number: [request(90_000, priority=number) for _ in range(100)] for number in (3, 2, 1)
    }
    for requests in by_class.values():
        for each in requests:
            core.on_arrival(each, NOW)
    ran: list[int] = []
    now = NOW
    while len(ran) < 21 * 4:
        now = Nanoseconds(now + core.pace.model.mean_ns(running.rows))  # type: ignore[union-attr] # it has one
        running = started(core.on_batch_end(running, now))
        ran += [piece.request.priority for piece in running.pieces]
    assert [ran[: 21 * 4].count(number) for number in (1, 2, 3)] == [16 * 4, 4 * 4, 4]


@pytest.mark.field_fault("S-29")
def test_a_request_without_hope_ends_before_its_deadline() -> None:
    core = build()
    occupy(core)
    waiting = request(50)
    core.on_arrival(waiting, NOW)
    commands = core.on_tick(at_ms(47))
    assert not [command for command in commands if isinstance(command, Expire)]
    commands = core.on_tick(at_ms(48))  # one row takes 2 ms
    assert [c.request for c in commands if isinstance(c, Expire)] == [waiting]


def rush(core: MicroBatcher) -> Nanoseconds:
    """Let a load come for which only full batches are company enough; return when it is seen."""
    running = occupy(core)
    for _ in range(80):
        core.on_arrival(leaves := request(), NOW)
        core.on_cancel(leaves, NOW)
    core.on_batch_end(running, at_ms(2))
    return at_ms(10)  # the load is looked at every 10 ms


def late_batch(
    core: MicroBatcher, now: Nanoseconds, ends_ms: float
) -> tuple[Request, list[Command]]:
    """Promise a row 10.5 ms from now a batch of 7, and learn late that the one before has ended."""
    running = started(core.on_arrival(request(now=now), now))
    urgent = request(10.5, now=now)
    for each in (urgent, *(request(90, now=now) for _ in range(6))):
        assert not any(isinstance(c, Reject) for c in core.on_arrival(each, now))
    ends = Nanoseconds(now + ms_to_ns(ends_ms))
    return urgent, core.on_batch_end(running, ends, took_ns=at_ms(2))


def test_a_row_that_a_full_batch_would_answer_too_late_gets_the_largest_one_that_does_not() -> None:
    core = build()
    urgent, commands = late_batch(core, rush(core), ends_ms=4)
    assert core.pace.need_rows == 7
    batch = started(commands)
    assert (batch.rows, batch.reason) == (5, "fits")  # 4 + 6 ms; six would end on 11
    assert batch.pieces[0].request is urgent


def test_a_row_that_only_a_far_too_small_batch_could_answer_is_given_up_for_the_others() -> None:
    core = build()
    urgent, commands = late_batch(core, rush(core), ends_ms=7)
    assert [c.request for c in commands if isinstance(c, Expire)] == [urgent]
    assert started(commands).rows == 6  # and two rows would have been in time


def test_a_small_batch_is_company_enough_where_the_load_is_low() -> None:
    core = build()
    urgent, commands = late_batch(core, at_ms(10), ends_ms=7)
    assert core.pace.need_rows == 1
    batch = started(commands)
    assert (batch.rows, batch.pieces[0].request) == (2, urgent)  # 7 + 3 ms


def test_whoever_is_refused_counts_as_load_and_makes_promises_more_careful() -> None:
    core = build()
    occupy(core)
    calm = core.pace.caution
    for _ in range(200):
        assert refusal(core.on_arrival(request(1), NOW)).probe is None
    core.on_arrival(request(now=at_ms(10)), at_ms(10))
    assert core.pace.rows_per_second > 1_000
    assert core.pace.need_rows > 1
    assert core.pace.caution > calm > 1


def test_what_may_not_be_shed_waits_behind_the_others_once_it_is_late() -> None:
    core = build()
    running = occupy(core)
    record = request(5, sheddable=False)
    assert not [c for c in core.on_arrival(record, NOW) if isinstance(c, Reject)]
    now = at_ms(6)
    assert not [command for command in core.on_tick(now) if isinstance(command, Expire)]
    assert core.statistics().queue.rows_by_class == (0, 0, 0, 1)
    now = at_ms(20)
    batch = started(core.on_batch_end(running, now))
    assert [piece.request for piece in batch.pieces] == [record]
    core.on_batch_end(batch, at_ms(22))
    assert record.state is State.ANSWERED
    assert core.statistics().late == 1


def test_with_several_executors_rows_wait_for_company_and_a_timer_ends_the_wait() -> None:
    core = build(executors=2, objective_ms=40)
    now = NOW
    for _ in range(400):  # a load that needs batches
        now = Nanoseconds(now + 500_000)
        commands = core.on_arrival(request(40, now=now), now)
        while starts := [c.batch for c in commands if isinstance(c, StartBatch)]:
            took_ns = (1 + starts[0].rows) * NS_PER_MS
            commands = core.on_batch_end(starts[0], now, took_ns=took_ns)
    assert core.pace.need_rows > 1
    reasons = core.statistics().batches_by_reason
    assert set(reasons) <= {"need_met", "waited", "full", "fits"}


def fail(core: MicroBatcher, batch: Batch, poison: set[Request], now: Nanoseconds) -> list[Fail]:
    """Run a batch and all that follows, on a model that raises for some rows."""
    fails: list[Fail] = []
    batches = [batch]
    runs = 0
    while batches:
        runs += 1
        assert runs <= 2 * 3 + 2
        each = batches.pop(0)
        if any(piece.request in poison for piece in each.pieces):
            commands = core.on_batch_failed(each, BackendError("raises"), now)
        else:
            commands = core.on_batch_end(each, now)
        batches += [c.batch for c in commands if isinstance(c, StartBatch)]
        fails += [c for c in commands if isinstance(c, Fail)]
    return fails


def test_the_row_that_makes_a_batch_fail_is_found_and_the_others_are_answered() -> None:
    core = build()
    running = occupy(core)
    requests = queue(core, 7)
    batch = started(core.on_batch_end(running, at_ms(2)))
    assert batch.rows == 7
    (failed,) = fail(core, batch, {requests[5]}, at_ms(11))
    assert failed.requests == [requests[5]]
    assert failed.poison_row == 0
    assert [each.state for each in requests].count(State.ANSWERED) == 6
    assert core.statistics().poison_rows == 1
    assert core.statistics().batches_by_reason["bisect"] <= 6


def test_a_backend_that_always_fails_blames_nobody_and_is_not_asked_for_ever() -> None:
    core = build()
    running = occupy(core)
    requests = queue(core, 7)
    batch = started(core.on_batch_end(running, at_ms(2)))
    fails = fail(core, batch, set(requests), at_ms(11))
    assert {each for one in fails for each in one.requests} == set(requests)
    assert all(one.poison_row is None for one in fails)


def test_rows_without_time_for_another_try_fail_at_once() -> None:
    core = build()
    running = occupy(core)
    tight, patient = request(13), request(90)
    for each in (tight, patient):
        core.on_arrival(each, NOW)
    batch = started(core.on_batch_end(running, at_ms(2)))
    commands = core.on_batch_failed(batch, BackendError("raises"), at_ms(12))
    assert [c.requests for c in commands if isinstance(c, Fail)] == [[tight]]
    assert [piece.request for piece in started(commands).pieces] == [patient]


def test_an_output_that_nobody_can_cut_fails_the_whole_batch() -> None:
    core = build()
    batch = occupy(core)
    commands = core.on_batch_failed(batch, BackendError("rows"), at_ms(2), may_rerun=False)
    assert [type(command) for command in commands] == [Fail, WakeAt]


def test_a_refusal_while_everything_is_idle_is_tried_all_the_same() -> None:
    core = build()
    commands = core.on_arrival(hopeless := request(1.5), NOW)  # one row takes 2 ms
    probe = refusal(commands).probe
    assert probe is not None
    batch = started(commands)
    assert [piece.request for piece in batch.pieces] == [probe]
    core.on_batch_end(batch, at_ms(1))  # faster than expected
    statistics = core.statistics()
    assert (statistics.probes, statistics.probes_in_time, statistics.rejected) == (1, 1, 0)
    assert (statistics.answered, statistics.unaccounted) == (0, 0)
    assert hopeless.state is State.REJECTED


def test_one_refusal_in_a_hundred_is_a_probe_while_enough_is_accepted() -> None:
    core = build(limits=BatchLimits(queue_limit_rows=10_000), objective_ms=100_000)
    occupy(core)
    for _ in range(1_000):
        core.on_arrival(request(90_000), NOW)
    probes = [refusal(core.on_arrival(request(2), NOW)).probe for _ in range(300)]
    assert [place for place, probe in enumerate(probes) if probe is not None] == [99]
    assert core.statistics().batches_running == 1
