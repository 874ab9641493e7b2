"""The safety net: deadlines are believed less while waits are too long, and again soon after."""

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Answer, StartBatch, WakeAt
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.sojourn import INTERVAL_NS, Sojourn

OBJECTIVE_NS = 200 * NS_PER_MS


def after_waits(waited_ns: int, *, intervals: int) -> Sojourn:
    sojourn = Sojourn()
    for place in range(intervals * 10):
        at_ns = Nanoseconds(place * INTERVAL_NS // 10)
        sojourn.on_dispatch(waited_ns, 195 * NS_PER_MS, OBJECTIVE_NS, at_ns)
    return sojourn


def test_waits_that_nobody_can_afford_make_promises_stricter_up_to_half_of_the_objective() -> None:
    assert after_waits(ms_to_ns(30), intervals=3).strictness_ns > 0
    assert after_waits(ms_to_ns(150), intervals=100).strictness_ns == OBJECTIVE_NS // 2


def test_what_goes_at_once_is_no_standing_queue_however_little_can_be_afforded() -> None:
    assert after_waits(300_000, intervals=100).strictness_ns == 0


def test_deadlines_are_believed_again_while_nothing_starts() -> None:
    sojourn = after_waits(ms_to_ns(150), intervals=10)
    before_ns = sojourn.strictness_ns
    sojourn.relax(10 * INTERVAL_NS + 3 * INTERVAL_NS)
    assert 0 < sojourn.strictness_ns <= before_ns // 4
    sojourn.relax(10 * NS_PER_SECOND)
    assert sojourn.strictness_ns == 0


def test_after_an_overload_an_idle_model_answers_everybody() -> None:
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 33):
        model.observe(rows, ms_to_ns(20 + 5 * rows), Nanoseconds(0))
    core = MicroBatcher(
        executors=1, limits=BatchLimits(), model=model, objective_ns=Nanoseconds(OBJECTIVE_NS)
    )
    arrivals = [place * NS_PER_SECOND // 330 for place in range(3_300)]  # twice the capacity
    arrivals += [20 * NS_PER_SECOND + place * NS_PER_SECOND for place in range(20)]
    late = [request for request in replayed(core, arrivals) if request.arrived_at_ns > 15 * 10**9]
    assert len(late) == 20
    assert all(request.state is State.ANSWERED for request in late)


def replayed(core: MicroBatcher, arrivals: list[int]) -> list[Request]:
    """Let requests arrive, and every call take its time."""
    requests: list[Request] = []
    running: tuple[int, StartBatch] | None = None
    wake_ns: int | None = None
    places = iter([*arrivals, arrivals[-1] + NS_PER_SECOND])
    next_ns = next(places)
    while True:
        events = [at for at in (running[0] if running else None, wake_ns) if at is not None]
        now = Nanoseconds(min([next_ns, *events]))
        if running and running[0] == now:
            batch, running = running[1].batch, None
            commands = core.on_batch_end(batch, now)
        elif wake_ns == now:
            commands = core.on_tick(now)
        elif next_ns == arrivals[-1] + NS_PER_SECOND:
            return requests
        else:
            requests.append(Request(1, "a", now, Nanoseconds(now + OBJECTIVE_NS)))
            commands = core.on_arrival(requests[-1], now)
            next_ns = next(places)
        for command in commands:
            if isinstance(command, StartBatch):
                running = (now + ms_to_ns(20 + 5 * command.batch.rows), command)
            elif isinstance(command, WakeAt):
                wake_ns = command.at_ns
            else:
                assert not isinstance(command, Answer) or command.batch.rows
