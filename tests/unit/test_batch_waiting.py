"""Whose turn it is in the queue of a store."""

import pytest

from tidegate_batch.core.records import Driver, JobState
from tidegate_batch.core.states import State
from tidegate_batch.core.waiting import Turn, Waiting, decide, in_order

DRIVER = Driver(host="a", pid=1, process="a:1")


def waiting(job: str = "a", *, priority: int = 2, at: str = "1", revision: int = 0) -> Waiting:
    return Waiting(job=job, priority=priority, queued_at=at, revision=revision)


def state(name: State, *, revision: int, driver: Driver | None = None) -> JobState:
    return JobState(state=name, epoch=1, driver=driver, revision=revision, write_ids=())


def test_priority_goes_before_who_came_first() -> None:
    queue = [
        waiting("late", at="3"),
        waiting("bulk", priority=3, at="1"),
        waiting("early", at="2"),
        waiting("urgent", priority=1, at="4"),
    ]
    assert [job.job for job in in_order(queue)] == ["urgent", "early", "late", "bulk"]


@pytest.mark.parametrize("is_driver_dead", [True, False])
def test_a_job_that_nobody_has_begun_is_started(is_driver_dead: bool) -> None:
    assert decide(waiting(), None, is_driver_dead=is_driver_dead) is Turn.START
    planned = state(State.PLANNED, revision=3)
    assert decide(waiting(), planned, is_driver_dead=is_driver_dead) is Turn.START


@pytest.mark.field_fault("B-14")
def test_a_job_whose_driver_is_dead_is_started_again_and_no_other() -> None:
    driven = state(State.RUNNING, revision=9, driver=DRIVER)
    assert decide(waiting(), driven, is_driver_dead=False) is Turn.WAIT
    assert decide(waiting(), driven, is_driver_dead=True) is Turn.START


@pytest.mark.parametrize("ended", [State.FAILED, State.CANCELLED])
def test_a_job_that_was_stopped_before_it_was_queued_is_resumed_once(ended: State) -> None:
    assert decide(waiting(revision=7), state(ended, revision=7), is_driver_dead=False) is Turn.START
    assert decide(waiting(revision=7), state(ended, revision=9), is_driver_dead=False) is Turn.OVER


@pytest.mark.parametrize("ended", [State.PUBLISHED, State.SUPERSEDED])
def test_what_is_final_leaves_the_queue(ended: State) -> None:
    assert decide(waiting(), state(ended, revision=7), is_driver_dead=False) is Turn.OVER
