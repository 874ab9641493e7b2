"""The batcher with an exact model of execution times: what it promises, it keeps.

Every batch takes exactly as long as the model says, and events come in the order of time. Then a
request that was admitted is answered in time, whatever arrives after it, and no row is given up.
"""

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
    Reject,
    StartBatch,
    WakeAt,
)
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State

pytestmark = pytest.mark.field_fault("S-13", "S-28", "S-42")

LIVE = {State.STANDBY, State.WAITING, State.RUNNING}
OBJECTIVE_NS = 1_000_000
SIZES = {"powers": (1, 2, 4, 8), "all": None, "few": (1, 3, 8)}


def exact_model(per_row_ns: int, per_batch_ns: int, sizes: tuple[int, ...] | None) -> LatencyModel:
    model = LatencyModel(percentile=0.99, sizes=sizes)
    for rows in sizes or range(1, 9):
        model.observe(rows, per_row_ns * rows + per_batch_ns, Nanoseconds(0))
    return model


class ExactTimes(RuleBasedStateMachine):
    """Obeys the commands, and moves the time from event to event."""

    kinds = "single"

    @initialize(
        per_row=st.integers(1_000, 120_000),
        per_batch=st.integers(0, 300_000),
        sizes=st.sampled_from(sorted(SIZES)),
        executors=st.integers(1, 3),
    )
    def start(self, per_row: int, per_batch: int, sizes: str, executors: int) -> None:
        self.model = exact_model(per_row, per_batch, SIZES[sizes])
        self.executors = executors
        self.batcher = MicroBatcher(
            executors=executors,
            limits=BatchLimits(),
            model=self.model,
            objective_ns=Nanoseconds(OBJECTIVE_NS),
        )
        self.now = Nanoseconds(0)
        self.requests: list[Request] = []
        self.outcomes: dict[Request, State] = {}
        self.ends: list[tuple[int, int, Batch]] = []
        self.started = 0
        self.wake_at: int | None = None
        self.probes: list[Request] = []
        self.rejected = 0

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case StartBatch():
                    self.look_at_batch(command.batch)
                case Answer():
                    self.look_at_answer(command.batch)
                case Reject():
                    self.look_at_refusal(command)
                case Expire():
                    self.settle(command.request)
                    self.expired(command.request)
                case Fail():
                    self.look_at_failure(command)
                case WakeAt():
                    assert command.at_ns != self.wake_at, "asked for again"
                    self.wake_at = command.at_ns
                case _:
                    pass  # that a call ends early changes nothing here

    def look_at_answer(self, batch: Batch) -> None:
        for piece in batch.pieces:
            if piece.request.state is State.ANSWERED:
                self.settle(piece.request)

    def look_at_refusal(self, reject: Reject) -> None:
        self.settle(reject.request)
        if reject.probe is not None:
            self.probes.append(reject.probe)
            return
        self.rejected += 1
        if reject.code == "deadline_unreachable":
            assert reject.predicted_ns is not None
            assert reject.retry_after_ns
            assert reject.retry_after_ns > 0

    def look_at_failure(self, fail: Fail) -> None:
        raise AssertionError(f"nothing fails here: {fail}")

    def expired(self, request: Request) -> None:
        raise AssertionError(f"admitted and not answered: {request}")

    def settle(self, request: Request) -> None:
        assert request not in self.outcomes
        self.outcomes[request] = request.state

    def look_at_batch(self, batch: Batch) -> None:
        assert batch.rows <= self.batcher.pace.cap_rows
        assert batch.rows == sum(piece.rows for piece in batch.pieces)
        assert len({piece.request.shape_key for piece in batch.pieces}) == 1
        end = self.now + self.model.mean_ns(batch.rows)
        for piece in batch.pieces:
            assert not piece.request.sheddable or end < piece.request.deadline_at_ns
        self.started += 1
        self.ends.append((end, self.started, batch))
        self.ends.sort()
        assert len(self.ends) <= self.executors

    @rule(
        budgets=st.lists(st.integers(1_000, 3_000_000) | st.just(OBJECTIVE_NS), min_size=1),
        apart=st.integers(0, 50_000),
    )
    def arrive(self, budgets: list[int], apart: int) -> None:
        for budget in budgets:
            self.one_arrives(Request(1, "a", self.now, Nanoseconds(self.now + budget)))
            self.pass_time(apart)

    def one_arrives(self, request: Request) -> None:
        self.requests.append(request)
        self.obey(self.batcher.on_arrival(request, self.now))

    @rule(by=st.integers(1, 1_000_000))
    def pass_time(self, by: int) -> None:
        until = self.now + by
        while (at := self.next_event()) is not None and at <= until:
            self.step(at)
        self.now = Nanoseconds(until)

    def next_event(self) -> int | None:
        return min(
            (at for at in (self.wake_at, self.ends[0][0] if self.ends else None) if at is not None),
            default=None,
        )

    def step(self, at: int) -> None:
        assert at >= self.now, "woken for the past"
        self.now = Nanoseconds(at)
        if self.ends and self.ends[0][0] == at:
            self.obey(self.batcher.on_batch_end(self.ends.pop(0)[2], self.now))
        else:
            before = self.wake_at
            self.obey(self.batcher.on_tick(self.now))
            assert self.wake_at != before, "woken for nothing"

    @precondition(lambda self: any(request.state in LIVE for request in self.requests))
    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick: int) -> None:
        live = [request for request in self.requests if request.state in LIVE]
        request = live[pick % len(live)]
        commands = self.batcher.on_cancel(request, self.now)
        self.settle(request)
        self.obey(commands)

    @invariant()
    def the_accounts_are_right(self) -> None:
        statistics = self.batcher.statistics()
        ended = Counter(self.outcomes.values())
        assert statistics.unaccounted == 0
        assert statistics.arrived == len(self.requests)
        assert statistics.answered == ended[State.ANSWERED]
        assert statistics.expired == ended[State.EXPIRED]
        assert statistics.cancelled == ended[State.CANCELLED]
        assert statistics.failed == ended[State.FAILED]
        assert statistics.probes == len(self.probes)
        assert statistics.rejected == self.rejected == sum(statistics.rejected_by_code.values())
        standing_by = [r.rows for r in self.requests if r.state is State.STANDBY]
        assert statistics.standby == len(standing_by)
        assert sum(standing_by) <= self.batcher.pace.cap_rows
        assert self.batcher.pace.need_rows <= self.batcher.pace.cap_rows

    @invariant()
    def no_executor_idles_while_rows_wait_unless_they_are_held(self) -> None:
        statistics = self.batcher.statistics()
        if statistics.queue.rows and statistics.batches_running < self.executors:
            assert self.executors > 1
            assert self.wake_at is not None

    def teardown(self) -> None:
        if not hasattr(self, "batcher"):
            return
        while (at := self.next_event()) is not None:
            self.step(at)
        assert all(request in self.outcomes for request in self.requests), "left hanging"


ExactTimes.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestExactTimes = ExactTimes.TestCase


class AnyTraffic(ExactTimes):
    """With classes, shapes, large requests and some that may not be shed, promises may break."""

    @rule(
        rows=st.integers(1, 3) | st.integers(1, 30),
        key=st.sampled_from("aab"),
        budget=st.integers(1_000, 3_000_000),
        priority=st.integers(1, 3),
        sheddable=st.booleans(),
    )
    def a_strange_one_arrives(
        self, rows: int, key: str, budget: int, priority: int, sheddable: bool
    ) -> None:
        request = Request(rows, key, self.now, Nanoseconds(self.now + budget), priority, sheddable)
        self.one_arrives(request)

    @precondition(lambda self: self.ends)
    @rule(poison=st.booleans())
    def a_batch_fails(self, poison: bool) -> None:
        at, _, batch = self.ends.pop(0)
        self.pass_time(max(0, at - self.now - 1))
        self.obey(
            self.batcher.on_batch_failed(batch, BackendError("x"), self.now, may_rerun=poison)
        )

    def look_at_failure(self, fail: Fail) -> None:
        assert fail.poison_row is None or len(fail.requests) == 1
        for request in fail.requests:
            self.settle(request)

    def expired(self, request: Request) -> None:
        assert request.sheddable
        pace = self.batcher.pace
        full_ns = pace.overhead_ns + self.model.mean_ns(pace.cap_rows)
        assert request.deadline_at_ns <= self.now + full_ns, "given up with time for any batch"

    @invariant()
    def what_may_not_be_shed_is_not(self) -> None:
        for request in self.requests:
            if not request.sheddable:
                assert request.state not in {State.REJECTED, State.EXPIRED}


AnyTraffic.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestAnyTraffic = AnyTraffic.TestCase
