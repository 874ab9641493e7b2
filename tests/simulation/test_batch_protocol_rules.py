"""Each rule of the commit protocol is needed: without it, some order of events goes wrong.

So the explorer can fail, and each of these rules is held by it.
"""

from collections.abc import Sequence
from functools import partial

import pytest

from tests.fakes.broken_rules import (
    CleansUpBeforeTheManifest,
    CommitsByPut,
    CopiesWithoutEtag,
    DeletesByPrefix,
    ForgetsItsWrites,
    IgnoresOwner,
    SucceedsBeforeTheManifest,
    SwapsWithoutEtag,
    TakesConflictForExists,
    TakesOverWithoutSuperseding,
)
from tests.fixtures.exploring import Bounds, WrongOrderError, explore
from tests.fixtures.protocol import (
    JOB,
    LAST,
    LATER,
    JobWorld,
    Play,
    Stage,
    cancelled,
    meddles,
    new_stage,
    resumes,
    scores,
)

# the thread that renews a lease dies with its actor, whenever it next asks a store
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Two jobs over one row and one output; neither was ever driven."""
    return new_stage(tmp_path_factory.mktemp("one"), rows=1)


@pytest.fixture(scope="module")
def running(submitted: Stage) -> Stage:
    """The first job's driver has died when the first attempt was to be stored."""
    return JobWorld(submitted, []).stopped_at(f"put_if_absent _tidegate/{JOB}/")


@pytest.fixture(scope="module")
def publishing(submitted: Stage) -> Stage:
    """Everything is committed, nothing is published."""
    return JobWorld(submitted, []).stopped_at("copy")


def goes_wrong(
    stage: Stage,
    plays: Sequence[Play],
    bounds: Bounds,
    *,
    may_lose: bool = False,
    has_random_ids: bool = True,
) -> str:
    """Explore until something is wrong, and say what."""

    def build() -> JobWorld:
        return JobWorld(
            stage, plays, may_lose=may_lose, has_random_ids=has_random_ids, is_sound=False
        )

    with pytest.raises(WrongOrderError) as found:
        explore(build, bounds)
    return str(found.value)


def test_a_commit_is_written_only_where_none_is(publishing: Stage) -> None:
    plays = [resumes(), resumes(), scores(rule=CommitsByPut)]
    said = goes_wrong(publishing, plays, Bounds(preemptions=2))
    assert "is not what was committed" in said


def test_a_loser_deletes_only_its_own_attempt(running: Stage) -> None:
    plays = [resumes(), scores(rule=DeletesByPrefix)]
    assert "was committed and is gone" in goes_wrong(running, plays, Bounds(preemptions=1))


def test_an_attempt_has_a_name_of_its_own(running: Stage) -> None:
    said = goes_wrong(running, [resumes(), scores()], Bounds(preemptions=1), has_random_ids=False)
    assert "is not what was committed" in said


def test_a_conflict_does_not_mean_that_it_is_there(publishing: Stage) -> None:
    plays = [resumes(rule=TakesConflictForExists)]
    assert "_SUCCESS without a manifest" in goes_wrong(publishing, plays, Bounds(faults=1))


def test_a_copy_names_the_etag_of_its_source(publishing: Stage) -> None:
    plays = [resumes(rule=CopiesWithoutEtag), meddles]
    said = goes_wrong(publishing, plays, Bounds(preemptions=1), may_lose=True)
    assert "is not what was committed" in said


def test_an_output_has_one_owner(submitted: Stage) -> None:
    plays = [resumes(job, partial(IgnoresOwner, job=job)) for job in (JOB, LATER)]
    assert "a reader takes" in goes_wrong(submitted, plays, Bounds(preemptions=2))


def test_a_job_is_superseded_before_its_output_is_taken_over(running: Stage) -> None:
    takes = resumes(LATER, lambda store: TakesOverWithoutSuperseding(store, former=JOB))
    said = goes_wrong(cancelled(running), [resumes(), takes], Bounds(preemptions=2))
    assert "which is not there" in said


def test_a_state_is_moved_only_from_what_was_read(running: Stage) -> None:
    takes = resumes(LATER, lambda store: SwapsWithoutEtag(store, name="state.json"))
    said = goes_wrong(cancelled(running), [resumes(), takes], Bounds(preemptions=2))
    assert "which is not there" in said


def test_an_owner_is_replaced_only_as_it_was_read(running: Stage) -> None:
    takers = [
        resumes(job, lambda store: SwapsWithoutEtag(store, name="owner.json"))
        for job in (LATER, LAST)
    ]
    stage = JobWorld(cancelled(running), []).stopped_at("replace _tidegate/owner", LATER)
    said = goes_wrong(stage, takers, Bounds(preemptions=3))
    assert "a reader takes" in said


def test_nothing_is_deleted_before_the_manifest_stands(publishing: Stage) -> None:
    plays = [resumes(rule=CleansUpBeforeTheManifest)]
    assert "was committed and is gone" in goes_wrong(publishing, plays, Bounds(crashes=1))


def test_success_is_said_last(publishing: Stage) -> None:
    plays = [resumes(rule=SucceedsBeforeTheManifest)]
    assert "_SUCCESS without a manifest" in goes_wrong(publishing, plays, Bounds())


def test_a_lost_reply_is_recognised_by_ones_own_write_id(running: Stage) -> None:
    plays = [resumes(rule=ForgetsItsWrites)]
    assert "cannot apply" in goes_wrong(running, plays, Bounds(faults=1))
