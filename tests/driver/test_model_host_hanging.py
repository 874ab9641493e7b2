"""Loads and warm-ups that hang, on virtual time: they fail with a reason, and cost nobody else."""

import asyncio

import pytest

from tests.fakes.versions import FakeVersions
from tests.fixtures.hosting import BRING_S, RISK, Hosting, hosting
from tidegate.errors import BackendError, PartUnavailableError
from tidegate.ids import ModelRef, Version
from tidegate_realtime.core.asked import UnloadRefusedError
from tidegate_realtime.core.hosting import State

pytestmark = pytest.mark.looptime

LIMIT_S = 600
RETRY_S = 10
"""Until the first retry; the second one follows after twice as long."""


def reason(it: Hosting, version: int) -> str:
    (copy,) = [c for c in it.host.lifecycle.copies if c.version == version]
    assert (copy.state, copy.failure is None) == (State.FAILED, False)
    assert copy.failure is not None
    assert copy.failure.code == "model_failed"
    return copy.failure.message


async def test_a_load_that_hangs_fails_with_a_reason_and_the_old_version_answers() -> None:
    async with hosting() as it:
        it.versions.load_s = 5_000
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1 + LIMIT_S + 1)
        assert reason(it, 8).startswith("risk@8 has not been loaded within 600 s. Raise serve.")
        assert it.shelf.answers() == 7
        assert it.shelf.shows["risk"].failed == {8: "model_failed"}
        it.versions.load_s = 0.2
        it.versions.move("other", stable=1)
        assert (await it.host.load(ModelRef.parse("other"))).version == 1
        assert it.shelf.answers() == 7


async def test_what_hangs_is_not_tried_again_before_it_ends_and_what_it_brings_is_closed() -> None:
    async with hosting() as it:
        it.versions.load_s = 5_000
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1 + LIMIT_S + 1 + RETRY_S)
        assert reason(it, 8).startswith("The last try of risk@8 hangs to this moment")
        assert (it.host.loading, it.host.hosted) == (["risk@8"], ["risk@7"])
        it.versions.load_s = 0.2
        await asyncio.sleep(5_000 - LIMIT_S - 30)
        assert it.versions.steps.count("load risk@8") == 1
        await asyncio.sleep(300 + BRING_S + 30)  # the longest pause between two tries
        assert it.shelf.answers() == 8
        assert it.versions.steps.count("load risk@8") == 2
        assert [hosted.version for hosted in it.versions.open] == [8]


async def test_a_warm_up_that_hangs_in_a_call_fails_although_it_cannot_be_closed() -> None:
    async with hosting() as it:
        it.versions.warm_s, it.versions.close_s = 1e5, 2_000
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1 + 0.3 + LIMIT_S + 5 + 0.1)
        assert reason(it, 8).startswith("risk@8 has not been warmed up within 600 s.")
        assert it.shelf.answers() == 7
        it.versions.warm_s = 0.7
        await asyncio.sleep(1_000)
        assert reason(it, 8).startswith("The last try of risk@8 hangs to this moment")
        assert it.versions.steps.count("load risk@8") == 1
        it.versions.close_s = 0.3
        await asyncio.sleep(1_300 + BRING_S)
        assert it.shelf.answers() == 8


async def test_a_warm_up_that_hangs_and_that_nobody_wants_any_more_is_not_waited_for() -> None:
    async with hosting() as it:
        it.versions.warm_s, it.versions.close_s = 1e5, 2_000
        it.versions.move("risk", stable=8)
        await asyncio.sleep(3)
        it.versions.move("risk", stable=7)
        await asyncio.sleep(1 + 5 + 0.1)
        assert it.versions_in(State.LEAVING) == []
        assert it.host.loading == ["risk@8"]
        assert it.host.loads == {("risk", "ready"): 1}


async def test_an_unload_at_the_moment_a_warm_up_is_given_up_is_done_and_ends_nothing_else() -> (
    None
):
    async with hosting(follow_s=None) as it, asyncio.TaskGroup() as operators:
        it.versions.warm_s, it.versions.give_up_s = 1e5, 1.0

        async def load() -> None:
            with pytest.raises(UnloadRefusedError):
                await it.host.load(ModelRef.parse("risk@5"))

        operators.create_task(load())
        await asyncio.sleep(0.3 + LIMIT_S + 0.5)
        assert it.versions_in(State.WARMING) == ["risk@5"]
        assert await it.host.unload(RISK, Version(5)) == [5]
        assert [hosted.version for hosted in it.versions.open] == [7]


async def test_a_model_that_hangs_at_the_start_ends_the_start_with_the_reason() -> None:
    versions = FakeVersions(load_s=2_000)
    with pytest.RaisesGroup(pytest.RaisesExc(BackendError, match="risk@7 has not been loaded")):
        async with hosting(versions=versions):
            pass


async def test_a_store_that_never_answers_is_asked_once_and_is_said_to_be_away() -> None:
    async with hosting() as it:
        it.versions.read_s = 5_000
        await asyncio.sleep(1_000)
        assert it.host.lifecycle.asked[RISK].problem == (
            "The store has not answered within 30 s (aliases of risk); look at it and at the "
            "network. What is loaded goes on answering."
        )
        assert it.host.alias_reads["risk", "failed"] == pytest.approx(1_000 / 31, abs=2)
        assert it.versions.reads == 1
        assert (it.host.loading, it.host.asking) == ([], ["aliases of risk"])
        with pytest.raises(PartUnavailableError, match=r"within 30 s \(version of other@stable\)"):
            await it.host.load(ModelRef.parse("other"))
        assert it.shelf.answers() == 7
        it.versions.read_s = 0
        await asyncio.sleep(5_000)
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1 + BRING_S + 0.1)
        assert it.shelf.answers() == 8


async def test_what_the_store_says_to_a_question_that_was_given_up_is_old_and_is_asked_anew() -> (
    None
):
    async with hosting(follow_s=None) as it:
        it.versions.read_s = 100
        with pytest.raises(PartUnavailableError):
            await it.host.load(ModelRef.parse("risk"))  # at which the store says 7, in 100 s
        it.versions.move("risk", stable=8)
        it.versions.read_s = 1
        await asyncio.sleep(50)
        assert (await it.host.load(ModelRef.parse("risk"))).version == 8
        assert (it.shelf.answers(), it.versions.reads) == (8, 2)
        assert it.host.asking == []


async def test_so_is_one_whose_asker_has_left() -> None:
    async with hosting(follow_s=None) as it:
        it.versions.read_s = 10
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await it.host.load(ModelRef.parse("risk"))
        it.versions.move("risk", stable=8)
        assert (await it.host.load(ModelRef.parse("risk"))).version == 8
