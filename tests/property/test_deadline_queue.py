"""The queue against the most naive one: a list that is sorted again for every question."""

import weakref
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.units import Nanoseconds
from tidegate_realtime.core.deadline_queue import DeadlineQueue
from tidegate_realtime.core.request import Request


@dataclass
class Waiting:
    request: Request
    place: int
    rows: int

    def order(self) -> tuple[int, int]:
        return self.request.deadline_at_ns, self.place


class AgainstANaiveQueue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = DeadlineQueue()
        self.naive: list[Waiting] = []
        self.pushed: list[Request] = []
        self.elsewhere: list[Request] = []

    def waiting(self) -> list[Waiting]:
        self.naive = sorted((item for item in self.naive if item.rows), key=Waiting.order)
        return self.naive

    @rule(
        rows=st.integers(1, 9),
        deadline=st.integers(0, 20),
        arrived=st.integers(0, 20),
        key=st.sampled_from("aab"),
    )
    def push(self, rows: int, deadline: int, arrived: int, key: str) -> None:
        request = Request(rows, key, Nanoseconds(arrived), Nanoseconds(deadline))
        self.queue.push(request, request.rows)
        self.naive.append(Waiting(request, len(self.pushed), rows))
        self.pushed.append(request)

    @rule(pick=st.integers(0, 10_000))
    def discard(self, pick: int) -> None:
        if self.pushed:
            request = self.pushed[pick % len(self.pushed)]
            if request in self.elsewhere:
                return
            self.queue.discard(request)
            self.naive = [item for item in self.naive if item.request is not request]

    @rule(now=st.integers(0, 12))
    def take_due(self, now: int) -> None:
        due = [item for item in self.waiting() if item.request.deadline_at_ns <= now]
        expected = [(item.request, item.rows) for item in due]
        assert self.queue.take_due(Nanoseconds(now)) == expected
        self.naive = [item for item in self.naive if item not in due]
        for item in due:
            item.request.waiting_rows = 7  # for it waits in another queue now
            self.elsewhere.append(item.request)

    @rule(limit=st.integers(1, 6), whole=st.integers(1, 6))
    def take(self, limit: int, whole: int) -> None:
        pieces, blocked = self.queue.take(limit, whole)
        expected, room, was_blocked = [], limit, False
        waiting = self.waiting()
        for item in [
            item for item in waiting if item.request.shape_key == waiting[0].request.shape_key
        ]:
            if item.rows > room and item.request.rows <= whole:
                was_blocked = True
                break
            rows = min(item.rows, room)
            expected.append((item.request, item.request.rows - item.rows, rows))
            item.rows -= rows
            room -= rows
            if not room:
                was_blocked = True
                break
        assert [(piece.request, piece.first_row, piece.rows) for piece in pieces] == expected
        assert blocked == was_blocked

    @rule(deadline=st.integers(0, 20), key=st.sampled_from("aab"))
    def push_and_think_better_of_it(self, deadline: int, key: str) -> None:
        request = Request(2, key, Nanoseconds(0), Nanoseconds(deadline))
        self.queue.push(request, 2)
        self.queue.withdraw(request)
        assert request.waiting_rows == 0

    @invariant()
    def whoever_may_jump_sees_every_row(self) -> None:
        singles = self.queue.single_rows()
        if singles is not None:
            assert [entry[2] for entry in singles] == [item.request for item in self.waiting()]
            assert all(item.rows == 1 for item in self.naive)
            assert len({item.request.shape_key for item in self.naive}) <= 1

    @invariant()
    def it_says_what_would_be_appended(self) -> None:
        waiting = self.waiting()
        last = max((item.request.deadline_at_ns for item in waiting), default=0)
        early = Request(1, "a", Nanoseconds(0), Nanoseconds(last - 1))
        assert not waiting or not self.queue.goes_last(early)
        if self.queue.goes_last(Request(1, "a", Nanoseconds(0), Nanoseconds(20))):
            assert all(item.request.shape_key == "a" for item in waiting)

    @invariant()
    def it_answers_as_the_naive_one_does(self) -> None:
        waiting = self.waiting()
        statistics = self.queue.statistics()
        assert statistics.requests == len(waiting)
        assert statistics.rows == sum(item.rows for item in waiting)
        first = waiting[0].request.deadline_at_ns if waiting else None
        assert statistics.earliest_deadline_at_ns == first
        assert statistics.waiting_since_ns == min(
            (item.request.arrived_at_ns for item in waiting), default=None
        )
        assert all(item.request.waiting_rows == item.rows for item in waiting)


TestAgainstANaiveQueue = AgainstANaiveQueue.TestCase


class Key:
    """A shape that can be watched: a request is held by whoever holds its key."""


def test_requests_that_were_removed_are_let_go_of_even_behind_one_that_stays() -> None:
    queue = DeadlineQueue()
    stays = Request(1, Key(), Nanoseconds(0), Nanoseconds(0))
    queue.push(stays, 1)
    keys = weakref.WeakSet[Key]()
    for _ in range(10_000):
        key = Key()
        keys.add(key)
        request = Request(1, key, Nanoseconds(0), Nanoseconds(1))
        queue.push(request, 1)
        queue.discard(request)
    assert len(keys) < 50
    assert queue.earliest_deadline_at_ns() == 0


def test_rows_keep_coming_out_in_order_while_the_list_is_cleaned_up_under_them() -> None:
    queue = DeadlineQueue()
    requests = [Request(1, (), Nanoseconds(0), Nanoseconds(place)) for place in range(1_000)]
    for request in requests[:100]:
        queue.push(request, 1)
    taken: list[Request] = []
    for request in requests[100:]:
        queue.push(request, 1)
        taken += [piece.request for piece in queue.take(1, 1)[0]]
    assert taken == requests[:900]
