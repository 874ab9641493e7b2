"""Models that share executors: nobody starves, and whoever is alone notices nothing."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import BackendError
from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Batch, Command, StartBatch
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.plan import Free
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.turns import LEAD_NS, Turns

NOW = Nanoseconds(0)


@dataclass
class Model:
    """Always has something to run, as urgent as it says, in calls that take as long as they do."""

    urgency: int
    takes_ns: int
    has_work: bool = True
    waited_ns: int = 0
    longest_wait_ns: int = 0
    forgotten: int = field(default=0, compare=False)

    def urgency_ns(self, now_ns: Nanoseconds) -> int | None:
        return self.urgency if self.has_work else None

    def call_ns(self) -> int:
        return self.takes_ns

    def due(self, by_ns: int) -> Free:
        return (self.takes_ns if self.has_work else 0), 0.0

    def next_ns(self, least_ns: int) -> int:
        return self.takes_ns if self.has_work else 0

    def busy(self, now_ns: Nanoseconds) -> list[Free]:
        return []

    def forget(self) -> None:
        self.forgotten += 1


@given(
    models=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 300)), min_size=2, max_size=5),
    pauses=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=10),
)
@settings(max_examples=200)
def test_nobody_who_has_a_batch_waits_for_ever(
    models: list[tuple[int, int]], pauses: list[tuple[int, int]]
) -> None:
    turns = Turns(1)
    waiting = [Model(urgency, ms_to_ns(call_ms)) for urgency, call_ms in models]
    seats = {turns.join(model, executors=1): model for model in waiting}
    pausing = {step: place % len(waiting) for place, step in pauses}
    now = NOW
    for step in range(120):
        if step in pausing:
            waiting[pausing[step]].has_work ^= True
        if step and not turns.is_open:
            assert turns.next_seat(now) is None or step in pausing  # nobody is forgotten
        seat = turns.next_seat(now)
        if seat is None:
            assert not any(model.has_work for model in waiting)
            continue
        assert seat.may_start(now)
        seat.start(now)
        assert turns.next_seat(now) is None  # no executor is given twice
        now = Nanoseconds(now + seats[seat].takes_ns)
        seat.end(seats[seat].takes_ns, now)
        for model in waiting:
            served = model is seats[seat] or not model.has_work
            model.waited_ns = 0 if served else model.waited_ns + seats[seat].takes_ns
            model.longest_wait_ns = max(model.longest_wait_ns, model.waited_ns)
    longest_ns = max(model.takes_ns for model in waiting)
    bound_ns = (len(waiting) - 1) * (LEAD_NS + 2 * longest_ns)
    assert max(model.longest_wait_ns for model in waiting) <= bound_ns


def build() -> MicroBatcher:
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 9):
        model.observe(rows, (1 + rows) * NS_PER_MS, NOW)
    return MicroBatcher(executors=2, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(40))


def run(core: MicroBatcher, events: list[tuple[str, int]]) -> list[list[str]]:
    """Obey, and write down what was commanded."""
    log: list[list[str]] = []
    running: list[Batch] = []
    requests: list[Request] = []
    now = NOW

    def obey(commands: list[Command]) -> None:
        running.extend(c.batch for c in commands if isinstance(c, StartBatch))
        log.append([describe(command) for command in commands])

    for kind, number in events:
        now = Nanoseconds(now + ms_to_ns(number % 7))
        if kind == "arrive":
            request = Request(1 + number % 5, (), now, Nanoseconds(now + ms_to_ns(5 + number)))
            requests.append(request)
            obey(core.on_arrival(request, now))
        elif kind == "tick":
            obey(core.on_tick(now))
        elif running:
            batch = running.pop(number % len(running))
            if kind == "end":
                obey(core.on_batch_end(batch, now))
            else:
                obey(core.on_batch_failed(batch, BackendError("broken"), now))
    log.append([request.state.name for request in requests])
    return log


def describe(command: Command) -> str:
    rows = f" {command.batch.rows}" if isinstance(command, StartBatch) else ""
    return type(command).__name__ + rows


@given(
    st.lists(
        st.tuples(st.sampled_from(["arrive", "arrive", "tick", "end", "fail"]), st.integers(0, 60)),
        max_size=80,
    )
)
def test_a_model_that_shares_with_nobody_does_what_it_does_alone(
    events: list[tuple[str, int]],
) -> None:
    sharing = build()
    sharing.share(Turns(2))
    assert run(sharing, events) == run(build(), events)
