"""Who is promised no place and not refused yet."""

from collections.abc import Sequence

from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.core.admission import Refusal
from tidegate_realtime.core.commands import Batch, Command, Expire, Piece, Reject, StartBatch
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.standby import Standby

REFUSED = Refusal("deadline_unreachable", is_open=True)
OBJECTIVE_MS = 16
T_MS = 200


def measured(*, slower_ms: int = 0) -> LatencyModel:
    """b rows take 2 + b ms, up to 16, and one call in ten takes longer."""
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 17):
        for call in range(10 if slower_ms else 1):
            more_ms = slower_ms if call == 5 else 0
            model.observe(rows, ms_to_ns(2 + rows + more_ms), Nanoseconds(0))
    return model


def standby() -> Standby:
    objective_ns = Nanoseconds(ms_to_ns(OBJECTIVE_MS))
    return Standby(Pace(measured(), objective_ns, None, executors=1, limits=BatchLimits()))


def batcher(*, memory_rows: int | None = None, slower_ms: int = 0) -> MicroBatcher:
    return MicroBatcher(
        executors=1,
        limits=BatchLimits(memory_rows=memory_rows),
        model=measured(slower_ms=slower_ms),
        objective_ns=Nanoseconds(ms_to_ns(OBJECTIVE_MS)),
    )


def request(at_ms: float = 0, *, within_ms: float = OBJECTIVE_MS, **more: object) -> Request:
    at_ns = Nanoseconds(ms_to_ns(at_ms))
    rows = more.pop("rows", 1)
    return Request(rows, "a", at_ns, Nanoseconds(at_ns + ms_to_ns(within_ms)), **more)  # type: ignore[arg-type] # rows and the like, as told


def holding(*requests: Request) -> Standby:
    held = standby()
    for each in requests:
        assert not held.hold(each, REFUSED)
    return held


def riders(pieces: Sequence[Piece]) -> list[Request]:
    return [piece.request for piece in pieces]


def test_who_has_come_last_rides_first_and_nobody_is_made_late() -> None:
    old, new, newest = (request(at_ms) for at_ms in (1, 5, 9))
    ahead = [Piece(request(10, within_ms=9), 0, 1)]  # at 14 ms, 3 rows end at 19 ms: too late
    held = holding(old, new, newest)
    assert riders(held.fill(ahead, Nanoseconds(ms_to_ns(14)))) == [newest]
    assert (held.rows, old in held, new in held) == (2, True, True)


def test_a_higher_class_rides_before_who_has_come_last() -> None:
    bulk, first = request(9, priority=3), request(1, priority=1)
    ahead = [Piece(request(10), 0, 12)]  # 13 rows are the cap: more pay no more
    assert riders(holding(bulk, first).fill(ahead, Nanoseconds(ms_to_ns(1)))) == [first]


def test_only_rows_of_the_same_shape_ride_along() -> None:
    other = Request(1, "b", Nanoseconds(0), Nanoseconds(ms_to_ns(OBJECTIVE_MS)))
    held = holding(other)
    assert held.fill([Piece(request(), 0, 1)], Nanoseconds(0)) == []
    assert riders(held.fill([], Nanoseconds(0))) == [other]


def test_more_than_a_batch_can_hold_is_refused_and_who_has_least_time_makes_room() -> None:
    held = holding(*[request(at_ms) for at_ms in range(13)])
    newcomer = request(13)
    ((gone, refusal),) = held.hold(newcomer, REFUSED)
    assert (gone.arrived_at_ns, refusal) == (0, REFUSED)
    assert held.rows == 13


def test_who_would_be_late_alone_is_lost() -> None:
    lost, open_still = request(within_ms=5, rows=2), request(within_ms=5)
    held = holding(lost, open_still)  # 2 rows take 4 ms, and one row 3 ms
    assert [gone for gone, _ in held.take_lost(ms_to_ns(1.5))] == [lost]
    assert held.rows == 1


def test_whoever_stands_by_is_told_when_half_of_his_time_has_passed() -> None:
    early, late = request(0), request(1)
    held = holding(early, late)
    assert held.told_by_ns() == ms_to_ns(OBJECTIVE_MS / 2)
    assert [gone for gone, _ in held.take_lost(ms_to_ns(OBJECTIVE_MS / 2))] == [early]
    assert held.rows == 1


def test_who_has_come_first_is_crowded_out_by_those_who_ride_before_him() -> None:
    held = holding(*[request(at_ms) for at_ms in range(5)])
    (gone, _), *others = held.take_crowded_out(6, ms_to_ns(3.5))  # 11 rows end at 16.5 ms
    assert (gone.arrived_at_ns, others) == (0, [])  # 10 rows at 15.5 ms, and 1 ms has 17


def test_bulk_is_crowded_out_before_a_higher_class() -> None:
    first, bulk = request(0, priority=1), request(1, priority=3)
    held = holding(first, bulk)
    assert [gone for gone, _ in held.take_crowded_out(12, ms_to_ns(3.5))] == [bulk, first]


def overload(core: MicroBatcher) -> tuple[Batch, list[Request]]:
    """Know of 5,000 rows/s, run a call from ``T_MS`` to 3 ms later, and let others stand by."""
    for place in range(1_000):
        core.pace.on_arrival(1, Nanoseconds(ms_to_ns(place / 5)))
    (start,) = started(core.on_arrival(request(T_MS), Nanoseconds(ms_to_ns(T_MS))))
    others = [request(T_MS + 0.2 * place) for place in range(1, 9)]
    for each in others:
        core.on_arrival(each, each.arrived_at_ns)
    return start, [each for each in others if each.state is State.STANDBY]


def started(commands: Sequence[Command]) -> list[Batch]:
    return [command.batch for command in commands if isinstance(command, StartBatch)]


def ended(commands: Sequence[Command], kind: type[Reject | Expire]) -> list[Request]:
    return [command.request for command in commands if isinstance(command, kind)]


def test_who_stands_by_is_answered_where_fewer_came_than_usual() -> None:
    core = batcher()
    running, held = overload(core)
    assert held
    assert core.statistics().standby == len(held)
    (batch,) = started(core.on_batch_end(running, Nanoseconds(ms_to_ns(T_MS + 3))))
    assert batch.rows == 8
    assert set(held) <= set(riders(batch.pieces))
    assert core.statistics().standby == 0
    core.on_batch_end(batch, Nanoseconds(ms_to_ns(T_MS + 13)))
    assert all(each.state is State.ANSWERED for each in held)


def test_who_stands_by_is_refused_as_soon_as_there_is_no_hope_and_never_expires() -> None:
    core = batcher()
    _, held = overload(core)
    told: list[Request] = []
    for at_ms in range(T_MS + 3, T_MS + 30):  # and the call does not end
        commands = core.on_tick(Nanoseconds(ms_to_ns(at_ms)))
        assert not set(ended(commands, Expire)) & set(held)
        told += ended(commands, Reject)
        for each in ended(commands, Reject):
            assert ms_to_ns(at_ms - 1) <= each.arrived_at_ns + ms_to_ns(OBJECTIVE_MS / 2)
    assert set(told) == set(held)
    assert len(told) == len(held) > 0
    assert core.statistics().unaccounted == 0


def test_a_caller_who_leaves_while_standing_by_is_forgotten() -> None:
    core = batcher()
    running, held = overload(core)
    core.on_cancel(held[0], Nanoseconds(ms_to_ns(T_MS + 2.5)))
    (batch,) = started(core.on_batch_end(running, Nanoseconds(ms_to_ns(T_MS + 3))))
    assert held[0] not in riders(batch.pieces)
    assert held[0].state is State.CANCELLED


def test_nobody_stands_by_where_it_would_only_harm_others_or_has_no_hope() -> None:
    core = batcher()
    overload(core)
    at_ns = Nanoseconds(ms_to_ns(T_MS + 2))
    hopeless = request(T_MS + 2, within_ms=3)
    assert ended(core.on_arrival(hopeless, at_ns), Reject) == [hopeless]


def test_nobody_stands_by_where_even_the_fewest_who_come_after_him_fill_the_batch() -> None:
    core = batcher(memory_rows=4, slower_ms=3)
    for place in range(2_000):  # 10,000 rows/s
        core.pace.on_arrival(1, Nanoseconds(ms_to_ns(place / 10)))
    (running,) = started(core.on_arrival(request(T_MS, rows=3), Nanoseconds(ms_to_ns(T_MS))))
    assert running.rows == 3  # for 5 ms mostly; a batch of 4 takes 6, and 9 at times
    early = request(T_MS + 1, within_ms=12)
    late = request(T_MS + 4.6, within_ms=9)
    assert ended(core.on_arrival(early, early.arrived_at_ns), Reject) == [early]
    core.on_arrival(late, late.arrived_at_ns)
    assert late.state is State.STANDBY
