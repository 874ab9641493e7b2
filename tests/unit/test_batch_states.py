"""The life of a job: the table, what is not in it, and its picture."""

import itertools
import re

import pytest

from tidegate_batch.core import states
from tidegate_batch.core.records import KEPT_MOVES, Driver, JobFailure, JobState
from tidegate_batch.core.states import (
    ENDED,
    STOPPED,
    TABLE,
    Event,
    IllegalTransitionError,
    State,
    advance,
)

DRIVER = Driver(host="h", pid=1, process="p")


def a_job_in(state: State) -> JobState:
    return JobState(state=state, epoch=3, driver=DRIVER, revision=9, write_ids=())


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in itertools.product(State, Event) if pair not in TABLE],
    ids=lambda value: value.name,
)
def test_a_move_that_is_not_in_the_table_is_refused(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransitionError, match=f"{event.name} to a job in {state.name}"):
        advance(state, event)


@pytest.mark.parametrize(("state", "event"), list(TABLE), ids=lambda value: value.name)
def test_a_move_is_recorded_with_its_time_and_epoch(state: State, event: Event) -> None:
    moved = a_job_in(state).moved(event, "2024-05-01T00:00:00+00:00")
    assert moved.state is TABLE[state, event]
    assert (moved.moves[-1].to, moved.moves[-1].epoch) == (moved.state, 3)
    assert moved.moves[-1].at == "2024-05-01T00:00:00+00:00"


def test_nothing_leads_out_of_what_is_final() -> None:
    assert not {state for state, _ in TABLE} & {State.PUBLISHED, State.SUPERSEDED}


def test_once_publishing_a_job_can_neither_be_cancelled_nor_fail_for_an_ordinary_reason() -> None:
    ways_out = {event for state, event in TABLE if state is State.PUBLISHING}
    assert ways_out == {Event.MANIFEST_WRITTEN, Event.DATA_MISSING}


def test_resume_and_take_over_exclude_each_other() -> None:
    for state in STOPPED:
        assert advance(state, Event.RESUMED) is State.RUNNING
        assert advance(state, Event.SUPERSEDED) is State.SUPERSEDED
    for after in (State.RUNNING, State.SUPERSEDED):
        for event in (Event.RESUMED, Event.SUPERSEDED):
            assert (after, event) not in TABLE


def test_nobody_drives_a_job_that_has_ended() -> None:
    failure = JobFailure(code="chunk_failed", message="rows 1 to 2")
    for state, event in TABLE:
        moved = a_job_in(state).moved(event, "now", failure=failure)
        assert (moved.driver is None) == (moved.state in ENDED)
        assert moved.failure == failure


def test_a_new_driver_means_a_new_epoch_and_an_empty_seat_does_not() -> None:
    job = a_job_in(State.RUNNING)
    assert job.driven_by(DRIVER).epoch == 4
    assert job.driven_by(None).epoch == 3


def test_a_job_that_is_resumed_every_night_remembers_a_bounded_past() -> None:
    job = a_job_in(State.RUNNING)
    for _ in range(KEPT_MOVES):
        job = job.moved(Event.FAILED, "t").moved(Event.RESUMED, "t")
    assert len(job.moves) == KEPT_MOVES


def test_the_picture_shows_every_state_and_no_other() -> None:
    picture = (states.__doc__ or "").split("::")[1].split("Once")[0]
    words = set(re.findall(r"[a-z]+", re.sub(r"\(.*?\)", "", picture)))
    assert words == set(State)
