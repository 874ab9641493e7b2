"""Who may wait to be decoded: durations in milliseconds, one model unless it says otherwise."""

import pytest

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.core.reading import FOREVER, ReadingQueue, Refusal, Unread


def at(milliseconds: float) -> Nanoseconds:
    return Nanoseconds(round(milliseconds * NS_PER_MS))


def unread(
    *, arrived: float = 0, within: float | None = 200, after: float = 10, kind: str = "photo"
) -> Unread:
    deadline = FOREVER if within is None else at(arrived + within)
    return Unread(kind, at(arrived), deadline, at(after))


def knowing(took: float, *, threads: int = 1, limit: int = 1_024) -> ReadingQueue:
    """A queue that has read one photo, which ended at 0."""
    queue = ReadingQueue(threads=threads, limit=limit)
    learn(queue, took, now=0)
    return queue


def learn(queue: ReadingQueue, took: float, *, now: float, kind: str = "photo") -> None:
    one = unread(arrived=now - took, within=None, kind=kind)
    assert queue.on_arrival(one, at(now - took)) is None
    assert queue.take(at(now - took)) == (one, None)
    assert queue.on_read(one, at(now)) == at(took)


def arrive(queue: ReadingQueue, one: Unread, now: float = 0) -> Refusal | None:
    """Arrive, and be taken if a thread is free."""
    refusal = queue.on_arrival(one, at(now))
    queue.take(at(now))
    return refusal


def test_whoever_would_be_late_is_refused_at_the_door_with_what_it_would_take() -> None:
    queue = knowing(80)
    assert arrive(queue, unread()) is None  # ends at 90
    assert arrive(queue, unread()) is None  # at 170
    refusal = arrive(queue, unread())  # at 250, beyond 200
    assert refusal == Refusal("deadline_unreachable", at(250), 2)
    assert queue.waiting == 1
    assert arrive(queue, unread(within=251)) is None


def test_what_has_been_decoded_already_of_the_running_one_counts() -> None:
    queue = knowing(80)
    arrive(queue, unread())
    arrive(queue, unread(within=130))  # refused
    assert queue.waiting == 0
    assert arrive(queue, unread(arrived=60, within=111), 60) is None


@pytest.mark.parametrize(("within", "is_taken"), [(90, False), (90.001, True)])
def test_the_time_of_one_row_must_be_left_after_reading(within: float, is_taken: bool) -> None:
    assert (arrive(knowing(80), unread(within=within)) is None) is is_taken


def test_threads_share_the_work_and_an_idle_one_keeps_nobody_waiting() -> None:
    queue = knowing(80, threads=2)
    taken = [arrive(queue, unread()) is None for _ in range(5)]
    assert taken == [True, True, True, False, False]  # of which the third waits for 80
    assert queue.waiting == 1


def test_those_ahead_are_counted_by_what_their_own_kind_takes() -> None:
    queue = knowing(80)
    learn(queue, 1, now=1, kind="text")
    arrive(queue, unread(arrived=1), 1)
    assert arrive(queue, unread(arrived=1, within=80, kind="text"), 1) is not None
    assert arrive(queue, unread(arrived=1, within=92, kind="text"), 1) is None


def test_what_is_not_known_is_not_held_against_anybody_but_looked_at_again_before_reading() -> None:
    queue = ReadingQueue(threads=1)
    first, *others = [unread() for _ in range(10)]
    for one in (first, *others):
        assert queue.on_arrival(one, at(0)) is None
    assert queue.take(at(0)) == (first, None)
    assert queue.take(at(0)) is None  # the thread is busy
    queue.on_read(first, at(150))
    for one in others:  # now it is known
        due = queue.take(at(150))
        assert due == (one, Refusal("deadline_unreachable", at(310), 0))
    assert (queue.take(at(150)), queue.waiting) == (None, 0)


def test_a_kind_that_is_always_refused_is_tried_again_after_ten_seconds() -> None:
    queue = knowing(500)
    assert arrive(queue, unread(arrived=10_000), 10_000) is not None
    assert arrive(queue, unread(arrived=10_001), 10_001) is None


def test_the_mean_moves_by_an_eighth_towards_what_it_took() -> None:
    queue = knowing(80)
    learn(queue, 160, now=200)  # 90
    assert arrive(queue, unread(arrived=200, within=100), 200) is not None
    assert arrive(queue, unread(arrived=200, within=100.001), 200) is None


def test_who_may_not_be_refused_waits_however_long_but_there_is_a_limit_to_all() -> None:
    queue = knowing(80, limit=3)
    found = [arrive(queue, unread(within=None)) for _ in range(5)]
    assert found[:4] == [None] * 4  # one is read
    assert found[4] is not None
    assert found[4].code == "queue_full"


def test_who_leaves_makes_room_and_is_never_taken() -> None:
    queue = knowing(80)
    arrive(queue, unread())
    leaving = unread()
    arrive(queue, leaving)
    assert arrive(queue, unread()) is not None
    queue.on_departure(leaving)
    queue.on_departure(leaving)  # who has left is not there
    assert queue.waiting == 0
    staying = unread()
    assert arrive(queue, staying) is None
    assert queue.take(at(0)) is None


def test_who_leaves_while_being_read_keeps_the_thread_until_it_is_done() -> None:
    queue = knowing(80)
    one = unread()
    arrive(queue, one)
    queue.on_departure(one)
    assert queue.is_reading(one)
    assert arrive(queue, unread(within=100)) is not None
    queue.on_read(one, at(80))
    assert not queue.is_reading(one)


def test_kinds_that_nobody_sends_any_more_leave_nothing_behind() -> None:
    queue = ReadingQueue(threads=1)
    for number in range(100):
        learn(queue, 1, now=number * 11_000, kind=f"version {number}")
    assert len(queue.known_kinds) == 1
    learn(queue, 1, now=99 * 11_000 + 5, kind="another")
    assert len(queue.known_kinds) == 2
