"""The commit protocol in every order of events, up to a bound; not a sample of them.

The real code runs against a store in memory; see ``tests/fixtures/exploring.py``. An actor may be
a driver whom the other takes for dead, a worker whose driver is gone, or a second job that wants
the same output. Each test states its bound: how often an actor is held up although it could go
on, how many die before or after any write, and how many calls the store answers wrongly. After
every write: what readers were promised stands. At the end of every order: one plain resume of
each job is enough for the output to be whole, each row once.
"""

from collections.abc import Sequence

import pytest

from tests.fixtures.exploring import Bounds, explore
from tests.fixtures.protocol import (
    JOB,
    LATER,
    JobWorld,
    Play,
    Stage,
    cancelled,
    cancels,
    meddles,
    new_stage,
    resumes,
    scores,
)

pytestmark = [
    pytest.mark.field_fault("B-08"),
    pytest.mark.field_fault("B-09"),
    # the thread that renews a lease dies with its actor, whenever it next asks a store
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
FIRST_ATTEMPT = f"put_if_absent _tidegate/{JOB}/000000"
SECOND_COMMIT = f"put_if_absent jobs/{JOB}/commits/000001"


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Two jobs over one row and one output; neither was ever driven."""
    return new_stage(tmp_path_factory.mktemp("one"), rows=1)


@pytest.fixture(scope="module")
def submitted_of_two(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The same over two rows, each a chunk."""
    return new_stage(tmp_path_factory.mktemp("two"), rows=2)


@pytest.fixture(scope="module")
def running(submitted: Stage) -> Stage:
    """The first job's driver has died when the first attempt was to be stored."""
    return JobWorld(submitted, []).stopped_at(FIRST_ATTEMPT)


@pytest.fixture(scope="module")
def half_done(submitted_of_two: Stage) -> Stage:
    """One of two chunks is committed, and the other's attempt is stored."""
    return JobWorld(submitted_of_two, []).stopped_at(SECOND_COMMIT)


@pytest.fixture(scope="module")
def publishing(submitted: Stage) -> Stage:
    """Everything is committed, nothing is published."""
    return JobWorld(submitted, []).stopped_at("copy")


def hold(stage: Stage, plays: Sequence[Play], *bounds: Bounds, may_lose: bool = False) -> None:
    """Explore, and make sure that something was seen."""
    endings: dict[object, None] = {}
    for bound in bounds:
        seen = explore(
            lambda: JobWorld(stage, plays, may_lose=may_lose, known_endings=endings), bound
        )
        assert seen.endings > 0


def test_one_driver_survives_any_crash_and_any_wrong_answer(submitted: Stage) -> None:
    hold(submitted, [resumes()], Bounds(crashes=1), Bounds(faults=1))


def test_one_driver_survives_two_wrong_answers(running: Stage) -> None:
    hold(running, [resumes()], Bounds(faults=2))


def test_two_drivers_may_begin_a_job_at_once(submitted: Stage) -> None:
    hold(
        submitted,
        [resumes(), resumes()],
        Bounds(preemptions=1, crashes=1),
        Bounds(faults=1),
    )


def test_two_drivers_may_score_every_chunk_twice(half_done: Stage) -> None:
    hold(half_done, [resumes(), resumes()], Bounds(preemptions=1, crashes=1))


def test_two_drivers_may_hold_each_other_up_again_and_again(running: Stage) -> None:
    hold(running, [resumes(), resumes()], Bounds(preemptions=2))


def test_a_worker_may_come_back_after_its_driver(running: Stage) -> None:
    hold(running, [resumes(), scores()], Bounds(preemptions=3, crashes=1), Bounds(faults=1))


def test_two_drivers_may_publish_at_once(publishing: Stage) -> None:
    hold(
        publishing,
        [resumes(), resumes()],
        Bounds(preemptions=2, crashes=1),
        Bounds(preemptions=1, faults=1),
    )


def test_a_worker_may_come_back_while_two_publish(publishing: Stage) -> None:
    hold(publishing, [resumes(), resumes(), scores()], Bounds(preemptions=1))


def test_two_jobs_may_want_one_output(submitted: Stage) -> None:
    hold(submitted, [resumes(JOB), resumes(LATER)], Bounds(preemptions=1, crashes=1))


def test_a_job_may_be_resumed_while_another_takes_its_output_over(half_done: Stage) -> None:
    stage = cancelled(half_done)
    hold(stage, [resumes(JOB), resumes(LATER)], Bounds(preemptions=1, crashes=1), Bounds(faults=1))
    hold(cancelled(half_done), [resumes(LATER), scores("000001")], Bounds(preemptions=2))


def test_a_driver_may_claim_an_output_that_its_cancelled_job_loses(submitted: Stage) -> None:
    hold(
        JobWorld(submitted, []).stopped_at(f"put_if_absent jobs/{JOB}/plan"),
        [resumes(JOB), cancels(JOB), resumes(LATER)],
        Bounds(preemptions=1, crashes=1),
    )


def test_two_drivers_may_be_at_a_job_that_is_taken_over(running: Stage) -> None:
    hold(cancelled(running), [resumes(JOB), resumes(JOB), resumes(LATER)], Bounds(preemptions=1))


def test_committed_rows_that_somebody_replaced_are_never_published(publishing: Stage) -> None:
    hold(publishing, [resumes(), meddles], Bounds(preemptions=2), may_lose=True)
