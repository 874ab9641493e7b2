"""Several models on shared executors, with everything that can go wrong in any order.

Callers leave, batches fail, calls are terminated, executors hang and are replaced, and execution
takes any time. Each request ends exactly once, no executor is given to two batches, and nobody who
could run waits beside an idle executor.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.errors import BackendError
from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Expire,
    Fail,
    Forget,
    GiveUp,
    Reject,
    StartBatch,
    Terminate,
    WakeAt,
)
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.turns import Seat, Turns

LARGEST = 8
LIVE = {State.WAITING, State.RUNNING, State.STANDBY}


class Driven:
    """One batcher, obeyed as a driver does."""

    def __init__(self, executors: int, objective_ms: int) -> None:
        model = LatencyModel(percentile=0.99, sizes=None)
        for rows in range(1, LARGEST + 1):
            model.observe(rows, (1 + rows) * NS_PER_MS, Nanoseconds(0))
        self.batcher = MicroBatcher(
            executors=executors,
            limits=BatchLimits(cap_rows=LARGEST, queue_limit_rows=64),
            model=model,
            objective_ns=ms_to_ns(objective_ms),
        )
        self.objective_ns = ms_to_ns(objective_ms)
        self.executors = executors
        self.requests: list[Request] = []
        self.outcomes: dict[Request, State] = {}
        self.batches: list[Batch] = []
        self.lost = 0
        self.wake_at_ns: int | None = None

    def live(self) -> list[Request]:
        return [request for request in self.requests if request not in self.outcomes]

    def end(self, request: Request, state: State) -> None:
        assert request not in self.outcomes, "two outcomes"
        assert request.state is state
        self.outcomes[request] = state

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case StartBatch():
                    self.batches.append(command.batch)
                case Terminate():
                    assert command.batch in self.batches, "terminated after its end"
                    assert not wanted(command.batch), "terminated although somebody waits"
                case GiveUp():
                    self.batches.remove(command.batch)
                    self.lost += 1
                case WakeAt():
                    self.wake_at_ns = command.at_ns
                case Forget():
                    assert command.probe.state not in LIVE
                case _:
                    self.obey_end(command)

    def obey_end(self, command: Answer | Fail | Reject | Expire) -> None:
        match command:
            case Answer():
                for request in {piece.request for piece in command.batch.pieces}:
                    if request.state is State.ANSWERED and request not in self.outcomes:
                        self.end(request, State.ANSWERED)
            case Fail():
                for request in command.requests:
                    self.end(request, State.FAILED)
            case Reject():
                self.end(command.request, State.REJECTED)
            case Expire():
                self.end(command.request, State.EXPIRED)

    def check(self) -> None:
        statistics = self.batcher.statistics()
        assert statistics.arrived == len(self.requests)
        assert statistics.unaccounted == 0
        assert statistics.batches_running == len(self.batches) <= self.executors - self.lost
        assert statistics.executors_usable == self.executors - self.lost
        ended = Counter(self.outcomes.values())
        assert statistics.answered == ended[State.ANSWERED]
        assert statistics.expired == ended[State.EXPIRED]
        assert statistics.cancelled == ended[State.CANCELLED]
        assert statistics.failed == ended[State.FAILED]
        assert all(request.state in LIVE for request in self.live())
        for batch in self.batches:
            assert batch.is_terminated or wanted(batch), "runs for nobody"


def wanted(batch: Batch) -> bool:
    return any(piece.request.state is State.RUNNING for piece in batch.pieces)


class AnythingGoesWrong(RuleBasedStateMachine):
    """One to three models, on executors of their own or on shared ones."""

    @initialize(
        shared=st.sampled_from([None, 1, 1, 2]),
        models=st.lists(
            st.tuples(st.integers(1, 2), st.sampled_from([20, 60, 2_000])), min_size=1, max_size=3
        ),
    )
    def start(self, shared: int | None, models: list[tuple[int, int]]) -> None:
        self.now = Nanoseconds(0)
        self.models = [Driven(*each) for each in models]
        self.turns = None if shared is None else Turns(shared)
        self.by_seat: dict[Seat, Driven] = {}
        if self.turns is not None:
            self.by_seat = {each.batcher.share(self.turns): each for each in self.models}

    def tell(self, model: Driven, commands: list[Command]) -> None:
        """Obey, and let everybody start whose turn has come by it."""
        model.obey(commands)
        if self.turns is None:
            return
        assert self.turns.is_open or self.turns.next_seat(self.now) is None, "forgotten"
        while (seat := self.turns.next_seat(self.now)) is not None:
            idle, other = self.turns.idle, self.by_seat[seat]
            other.obey(other.batcher.on_tick(self.now))
            assert self.turns.idle < idle or self.turns.next_seat(self.now) is not seat, "stuck"

    @rule(
        pick=st.integers(0, 2),
        rows=st.integers(1, 3) | st.integers(1, 20),
        budget_ms=st.sampled_from([2, 5, 10, 30, 30, 100, 20_000]),
        kind=st.sampled_from(["sheddable"] * 6 + ["record", "best effort"]),
        priority=st.sampled_from([1, 2, 2, 3]),
        times=st.integers(1, 12),
    )
    def arrive(
        self, pick: int, rows: int, budget_ms: int, kind: str, priority: int, times: int
    ) -> None:
        model = self.models[pick % len(self.models)]
        for _ in range(times):
            request = Request(
                rows,
                (),
                self.now,
                Nanoseconds(self.now + ms_to_ns(budget_ms)),
                priority,
                sheddable=kind == "sheddable",
                is_newest_first=kind == "best effort",
            )
            model.requests.append(request)
            self.tell(model, model.batcher.on_arrival(request, self.now))
            assert request.sheddable or request.state is not State.REJECTED

    @precondition(lambda self: any(each.live() for each in self.models))
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick: int) -> None:
        live = [(model, request) for model in self.models for request in model.live()]
        model, request = live[pick % len(live)]
        commands = model.batcher.on_cancel(request, self.now)
        model.end(request, State.CANCELLED)
        self.tell(model, commands)

    def running(self) -> list[tuple[Driven, Batch]]:
        return [(model, batch) for model in self.models for batch in model.batches]

    @precondition(lambda self: self.running())
    @rule(pick=st.integers(0, 10_000))
    def a_batch_ends(self, pick: int) -> None:
        model, batch = self.running()[pick % len(self.running())]
        model.batches.remove(batch)
        self.tell(model, model.batcher.on_batch_end(batch, self.now))

    @precondition(lambda self: self.running())
    @rule(pick=st.integers(0, 10_000), may_rerun=st.booleans(), times=st.sampled_from([1, 1, 10]))
    def a_batch_fails(self, pick: int, may_rerun: bool, times: int) -> None:
        for _ in range(times):
            if self.running():
                model, batch = self.running()[pick % len(self.running())]
                model.batches.remove(batch)
                error = BackendError("broken")
                self.tell(
                    model,
                    model.batcher.on_batch_failed(batch, error, self.now, may_rerun=may_rerun),
                )

    @precondition(lambda self: any(batch.is_terminated for _, batch in self.running()))
    @rule()
    def every_terminated_call_ends(self) -> None:
        for model, batch in self.running():
            if batch.is_terminated:
                model.batches.remove(batch)
                error = BackendError("terminated")
                self.tell(model, model.batcher.on_batch_failed(batch, error, self.now))

    @precondition(lambda self: self.running())
    @rule(pick=st.integers(0, 10_000))
    def a_call_hangs(self, pick: int) -> None:
        model, batch = self.running()[pick % len(self.running())]
        self.pass_time(until_ns=batch.hangs_at_ns)
        assert batch not in model.batches, "not given up"

    @precondition(lambda self: any(each.lost for each in self.models))
    @rule()
    def an_executor_is_replaced(self) -> None:
        model = next(each for each in self.models if each.lost)
        model.lost -= 1
        self.tell(model, model.batcher.on_executor_change(+1, self.now))

    @rule(by_ms=st.integers(0, 40))
    def time_passes(self, by_ms: int) -> None:
        self.pass_time(until_ns=self.now + ms_to_ns(by_ms))

    def pass_time(self, until_ns: int) -> None:
        """Let every timer ring in time."""
        while True:
            due = [each for each in self.models if each.wake_at_ns is not None]
            model = min(due, key=lambda each: each.wake_at_ns or 0, default=None)
            if model is None or model.wake_at_ns is None or model.wake_at_ns > until_ns:
                break
            self.now, before = Nanoseconds(max(self.now, model.wake_at_ns)), model.wake_at_ns
            self.tell(model, model.batcher.on_tick(self.now))
            assert model.wake_at_ns is None or model.wake_at_ns > before, (
                "woken for nothing",
                before,
                model.wake_at_ns,
            )
        self.now = Nanoseconds(max(self.now, until_ns))

    @invariant()
    def every_request_is_in_one_place(self) -> None:
        for model in self.models:
            model.check()

    @invariant()
    def no_executor_is_given_twice(self) -> None:
        if self.turns is not None:
            running = sum(len(each.batches) for each in self.models)
            assert running == self.turns.executors - self.turns.idle <= self.turns.executors

    @invariant()
    def nobody_waits_beside_an_idle_executor(self) -> None:
        if self.turns is not None:
            assert self.turns.next_seat(self.now) is None

    def teardown(self) -> None:
        if not hasattr(self, "models"):
            return  # it ended before it began
        while any(each.lost for each in self.models):
            self.an_executor_is_replaced()
        for _ in range(10_000):
            if self.running():
                self.a_batch_ends(0)
            elif any(each.live() for each in self.models):
                ring = [each.wake_at_ns for each in self.models if each.wake_at_ns is not None]
                self.pass_time(until_ns=min(ring))
            else:
                break
        assert not any(each.live() for each in self.models), "left hanging"
        self.every_request_is_in_one_place()


AnythingGoesWrong.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
TestAnythingGoesWrong = AnythingGoesWrong.TestCase
