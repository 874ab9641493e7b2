"""Any interleaving of arrivals, ticks, batch ends, failures, cancels and draining."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
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
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State

LIVE = {State.WAITING, State.RUNNING}


class AnyInterleaving(RuleBasedStateMachine):
    """Obeys the commands as a driver does, and believes nothing that it has not seen."""

    @initialize(cap=st.integers(1, 5), room=st.integers(0, 30), executors=st.integers(1, 3))
    def start(self, cap: int, room: int, executors: int) -> None:
        self.executors = executors
        self.limits = BatchLimits(cap_rows=cap, queue_limit_rows=cap + room)
        self.batcher = MicroBatcher(executors=executors, limits=self.limits)
        self.now = Nanoseconds(0)
        self.requests: list[Request] = []
        self.outcomes: dict[Request, State] = {}
        self.started_rows: Counter[Request] = Counter()
        self.answered_rows: Counter[Request] = Counter()
        self.batches: list[Batch] = []
        self.wake_at: Nanoseconds | None = None
        self.draining = False

    def live(self) -> list[Request]:
        return [request for request in self.requests if request not in self.outcomes]

    def settle(self, request: Request, state: State) -> None:
        assert request not in self.outcomes, "two outcomes"
        assert request.state is state
        self.outcomes[request] = state

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case StartBatch():
                    self.look_at_batch(command.batch)
                case Answer():
                    self.look_at_answer(command.batch)
                case Fail() | Reject() | Expire():
                    self.look_at_end(command)
                case WakeAt():
                    assert command.at_ns != self.wake_at, "asked for again"
                    self.wake_at = command.at_ns
                case Terminate() | GiveUp() | Forget():
                    pass  # this backend cannot end a call early, none hangs, nothing is kept

    def look_at_batch(self, batch: Batch) -> None:
        self.batches.append(batch)
        assert len(self.batches) <= self.executors
        assert 1 <= batch.rows <= self.limits.cap_rows
        assert batch.rows == sum(piece.rows for piece in batch.pieces)
        assert len({piece.request.shape_key for piece in batch.pieces}) == 1
        order = [piece.request.deadline_at_ns for piece in batch.pieces]
        assert order == sorted(order)
        for piece in batch.pieces:
            assert piece.request not in self.outcomes, "runs after its end"
            assert piece.request.deadline_at_ns > self.now, "expired, and yet executed"
            assert piece.first_row == self.started_rows[piece.request], "a gap, or rows run twice"
            assert piece.rows == piece.request.rows or piece.request.rows > self.limits.cap_rows
            self.started_rows[piece.request] += piece.rows
        left_behind = any(
            request.state in LIVE
            and request.shape_key == batch.pieces[0].request.shape_key
            and self.started_rows[request] < request.rows
            for request in self.requests
        )
        no_room = batch.rows == self.limits.cap_rows or left_behind
        assert batch.reason == ("full" if no_room else "free")

    def look_at_answer(self, batch: Batch) -> None:
        for piece in batch.pieces:
            if piece.request not in self.outcomes:
                self.answered_rows[piece.request] += piece.rows
                if piece.request.state is State.ANSWERED:
                    assert self.answered_rows[piece.request] == piece.request.rows
                    self.settle(piece.request, State.ANSWERED)

    def look_at_end(self, command: Fail | Reject | Expire) -> None:
        match command:
            case Fail():
                for request in command.requests:
                    self.settle(request, State.FAILED)
            case Reject():
                self.settle(command.request, State.REJECTED)
            case Expire():
                assert command.request.deadline_at_ns <= self.now, "expired too early"
                self.settle(command.request, State.EXPIRED)

    @rule(
        rows=st.lists(st.integers(1, 3) | st.integers(1, 13), min_size=1, max_size=4),
        budget=st.integers(0, 20),
        key=st.sampled_from("aaab"),
    )
    def arrive(self, rows: list[int], budget: int, key: str) -> None:
        for of_one in rows:
            request = Request(of_one, key, self.now, Nanoseconds(self.now + budget))
            self.requests.append(request)
            self.obey(self.batcher.on_arrival(request, self.now))
            assert (request.state is State.REJECTED) or not self.draining

    @precondition(lambda self: self.live())
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick: int) -> None:
        request = self.live()[pick % len(self.live())]
        before = {other: other.state for other in self.requests if other is not request}
        commands = self.batcher.on_cancel(request, self.now)
        self.settle(request, State.CANCELLED)
        self.obey(commands)
        for other, state in before.items():
            late = state in LIVE and other.deadline_at_ns <= self.now
            assert other.state is (State.EXPIRED if late else state), "harmed by a cancel"

    @precondition(lambda self: self.batches)
    @rule(pick=st.integers(0, 10_000))
    def end_batch(self, pick: int) -> None:
        batch = self.batches.pop(pick % len(self.batches))
        self.obey(self.batcher.on_batch_end(batch, self.now))

    @precondition(lambda self: self.batches)
    @rule(pick=st.integers(0, 10_000))
    def fail_batch(self, pick: int) -> None:
        batch = self.batches.pop(pick % len(self.batches))
        members = {piece.request for piece in batch.pieces}
        failed_before = {r for r, state in self.outcomes.items() if state is State.FAILED}
        self.obey(self.batcher.on_batch_failed(batch, BackendError("broken"), self.now))
        failed = {r for r, state in self.outcomes.items() if state is State.FAILED}
        assert failed - failed_before <= members
        assert members <= set(self.outcomes)

    @rule(by=st.integers(0, 6))
    def time_passes_and_the_timer_is_late(self, by: int) -> None:
        self.now = Nanoseconds(self.now + by)

    @rule()
    def tick(self) -> None:
        self.obey(self.batcher.on_tick(self.now))
        assert all(request.deadline_at_ns > self.now for request in self.live())

    @precondition(lambda self: self.wake_at is not None and self.wake_at > self.now)
    @rule()
    def the_timer_comes_in_time(self) -> None:
        assert self.wake_at is not None
        self.now = self.wake_at
        late = [request for request in self.live() if request.deadline_at_ns <= self.now]
        assert late, "woken for nothing"
        self.obey(self.batcher.on_tick(self.now))
        assert all(self.outcomes[request] is State.EXPIRED for request in late)

    @precondition(
        lambda self: len(self.requests) > 60
    )  # as the end of a story, or most is refusals
    @rule()
    def drain(self) -> None:
        self.draining = True
        self.obey(self.batcher.on_drain(self.now))

    @invariant()
    def each_request_is_in_one_place(self) -> None:
        statistics = self.batcher.statistics()
        states = Counter(request.state for request in self.requests)
        assert statistics.arrived == len(self.requests)
        assert statistics.unaccounted == 0
        assert statistics.waiting == states[State.WAITING]
        assert statistics.running == states[State.RUNNING]
        ended = Counter(self.outcomes.values())
        assert statistics.answered == ended[State.ANSWERED]
        assert statistics.rejected == ended[State.REJECTED]
        assert statistics.rejected == sum(statistics.rejected_by_code.values())
        assert statistics.expired == ended[State.EXPIRED]
        assert statistics.cancelled == ended[State.CANCELLED]
        assert statistics.failed == ended[State.FAILED]
        assert all(request.state in LIVE for request in self.live())

    @invariant()
    def the_queue_holds_the_rows_that_no_batch_took(self) -> None:
        queue = self.batcher.statistics().queue
        left = [request.rows - self.started_rows[request] for request in self.live()]
        assert queue.rows == sum(left) <= self.limits.queue_limit_rows
        assert queue.requests == sum(rows > 0 for rows in left)

    @invariant()
    def nobody_waits_while_an_executor_is_idle(self) -> None:
        statistics = self.batcher.statistics()
        assert statistics.batches_running == len(self.batches)
        assert len(self.batches) == self.executors or not statistics.queue.rows

    @invariant()
    def the_timer_stands_at_the_earliest_deadline(self) -> None:
        assert self.wake_at == min((r.deadline_at_ns for r in self.live()), default=None)

    @invariant()
    def batches_are_counted(self) -> None:
        statistics = self.batcher.statistics()
        rows = sum(rows * batches for rows, batches in statistics.batches_by_rows.items())
        assert rows == self.started_rows.total()
        assert sum(statistics.batches_by_rows.values()) == sum(
            statistics.batches_by_reason.values()
        )

    def teardown(self) -> None:
        if not hasattr(self, "batcher"):
            return  # it ended before it began
        while self.batches:
            self.end_batch(0)
        assert not self.live(), "left hanging"
        assert len(self.outcomes) == len(self.requests)
        assert self.wake_at is None


AnyInterleaving.TestCase.settings = settings(max_examples=250, stateful_step_count=80)
TestAnyInterleaving = pytest.mark.field_fault("S-01")(AnyInterleaving.TestCase)
