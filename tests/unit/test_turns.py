"""Who goes next among models that share executors, and what admission foretells of the others."""

import pytest

from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Batch, Command, Reject, StartBatch
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.turns import LEAD_NS, Turns

NOW = Nanoseconds(0)


def build(turns: Turns, *, row_ms: int = 1, objective_ms: float = 200) -> MicroBatcher:
    """One row takes twice ``row_ms``, each more takes it once."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 9):
        model.observe(rows, (1 + rows) * row_ms * NS_PER_MS, NOW)
    core = MicroBatcher(
        executors=1, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(objective_ms)
    )
    core.share(turns)
    return core


def arrive(core: MicroBatcher, within_ms: float, now: Nanoseconds = NOW) -> Request:
    request = Request(1, (), now, Nanoseconds(now + ms_to_ns(within_ms)))
    core.on_arrival(request, now)
    return request


def started(commands: list[Command]) -> list[Batch]:
    return [command.batch for command in commands if isinstance(command, StartBatch)]


def test_the_model_whose_row_can_wait_least_goes_next() -> None:
    turns = Turns(1)
    busy, patient, urgent = build(turns), build(turns), build(turns)
    (batch,) = started(busy.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    arrive(patient, 100)
    arrive(urgent, 50)
    arrive(busy, 90)
    now = ms_to_ns(2)
    assert not started(busy.on_batch_end(batch, now))
    assert turns.next_seat(now) is urgent.seat
    assert not started(patient.on_tick(now))
    assert started(urgent.on_tick(now))
    assert turns.next_seat(now) is None  # no executor is idle


def test_a_long_call_must_begin_earlier_than_a_short_one() -> None:
    turns = Turns(1)
    busy, short, long = build(turns), build(turns), build(turns, row_ms=10)
    (batch,) = started(busy.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    arrive(short, 90)
    arrive(long, 100)  # and takes 20 ms
    now = ms_to_ns(2)
    busy.on_batch_end(batch, now)
    assert turns.next_seat(now) is long.seat


def test_more_executors_than_one_are_given_to_as_many_models_and_no_more() -> None:
    turns = Turns(2)
    models = [build(turns) for _ in range(3)]
    batches = [started(m.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW)) for m in models]
    assert [len(each) for each in batches] == [1, 1, 0]
    models[0].on_batch_end(batches[0][0], NOW)
    assert turns.next_seat(NOW) is models[2].seat


def test_a_model_that_is_always_urgent_gets_no_more_than_its_share_while_others_wait() -> None:
    turns = Turns(1)
    busy, patient = build(turns), build(turns, objective_ms=10_000)
    (batch,) = started(busy.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    arrive(patient, 9_000)
    now, ran_ns = NOW, 0
    while True:
        arrive(busy, 100, now)
        now = Nanoseconds(now + ms_to_ns(2))
        ran_ns += ms_to_ns(2)
        commands = busy.on_batch_end(batch, now)
        if not started(commands):
            break
        (batch,) = started(commands)
    assert turns.next_seat(now) is patient.seat
    assert LEAD_NS < ran_ns <= LEAD_NS + ms_to_ns(2)


def test_a_model_that_had_nothing_to_run_has_not_saved_time_up() -> None:
    turns = Turns(1)
    busy, other = build(turns), build(turns)
    (batch,) = started(busy.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    now = NOW
    for _ in range(1_000):
        arrive(busy, 100, now)
        now = Nanoseconds(now + ms_to_ns(2))
        (batch,) = started(busy.on_batch_end(batch, now))
    arrive(other, 100, now)
    arrive(busy, 50, now)
    assert started(busy.on_batch_end(batch, now))  # it is more urgent, and no debtor


@pytest.mark.parametrize(("elsewhere", "state"), [(0, State.WAITING), (8, State.REJECTED)])
def test_what_goes_first_elsewhere_is_reckoned_with_at_admission(
    elsewhere: int, state: State
) -> None:
    turns = Turns(1)
    core, other = build(turns, row_ms=4), build(turns, row_ms=4)
    started(other.on_arrival(Request(1, (), NOW, ms_to_ns(50)), NOW))  # for 8 ms
    for _ in range(elsewhere):
        assert arrive(other, 50).state is State.WAITING  # 8 rows take 36 ms
    assert arrive(core, 50).state is state  # and takes 8 ms


def test_what_is_due_later_elsewhere_is_not_in_the_way() -> None:
    turns = Turns(1)
    core, other = build(turns), build(turns, row_ms=4)
    started(other.on_arrival(Request(1, (), NOW, ms_to_ns(150)), NOW))
    for _ in range(8):
        arrive(other, 150)
    assert arrive(core, 40).state is State.WAITING


def test_while_a_call_of_another_model_hangs_on_the_only_executor_requests_are_refused() -> None:
    turns = Turns(1)
    core, other = build(turns), build(turns)
    started(other.on_arrival(Request(1, (), NOW, ms_to_ns(150)), NOW))
    late = ms_to_ns(120)
    (reject,) = core.on_arrival(Request(1, (), late, ms_to_ns(220)), late)
    assert isinstance(reject, Reject)
    assert reject.code == "backend_unavailable"


def test_who_leaves_is_asked_no_more() -> None:
    turns = Turns(1)
    core, other = build(turns), build(turns)
    assert other.seat is not None
    turns.leave(other.seat)
    assert turns.seats == [core.seat]
    assert turns.join(other.seat.contender, executors=1).served_ns == 0


def test_time_that_one_had_while_there_was_enough_for_all_is_not_held_against_it() -> None:
    turns = Turns(1)
    busy = build(turns)
    (batch,) = started(busy.on_arrival(Request(1, (), NOW, ms_to_ns(100)), NOW))
    busy.on_batch_end(batch, ms_to_ns(90))
    for number in range(100):
        now = Nanoseconds(NS_PER_MS * 1_000 * (1 + number))
        (batch,) = started(busy.on_arrival(request_at(now), now))
        busy.on_batch_end(batch, Nanoseconds(now + ms_to_ns(90)))
    other = build(turns)
    assert busy.seat is not None
    assert other.seat is not None
    assert busy.seat.served_ns == other.seat.served_ns


def request_at(now: Nanoseconds) -> Request:
    return Request(1, (), now, Nanoseconds(now + ms_to_ns(100)))


def test_as_many_executors_as_models_are_nobodys_concern() -> None:
    turns = Turns(2)
    core, other = build(turns, row_ms=4), build(turns, row_ms=4)
    for _ in range(9):
        arrive(other, 50)
    assert arrive(core, 10).state is State.RUNNING  # which is as little as it takes
    assert not turns.is_open


def test_slow_probes_become_rare_and_a_quick_one_makes_them_frequent_again() -> None:
    turns = Turns(1)
    core, _ = build(turns), build(turns)
    assert core.seat is not None
    now = NOW
    for pause in (2, 4, 8):
        core.seat.on_probe(request_at(now), ms_to_ns(100), now)
        assert not core.seat.may_probe(Nanoseconds(now + ms_to_ns(100 * pause) - 1))
        now = Nanoseconds(now + ms_to_ns(100 * pause))
        assert core.seat.may_probe(now)
    core.seat.on_probe(request_at(now), ms_to_ns(10), now)
    assert core.seat.may_probe(Nanoseconds(now + ms_to_ns(10)))


def test_where_nobody_needs_the_executors_probes_are_as_frequent_as_for_one_model() -> None:
    turns = Turns(1)
    core = build(turns)
    assert core.seat is not None
    core.seat.on_probe(request_at(NOW), ms_to_ns(100), NOW)
    assert core.seat.may_probe(NOW)
