"""What operators load and unload, on virtual time."""

import asyncio

import pytest

from tests.fakes.versions import FakeVersions
from tests.fixtures.hosting import BRING_S, RISK, hosting
from tidegate.errors import BackendError, DigestMismatchError, ModelNotFoundError
from tidegate.ids import ModelName, ModelRef, Version
from tidegate_realtime.core.asked import UnloadRefusedError
from tidegate_realtime.core.hosting import State

pytestmark = pytest.mark.looptime


@pytest.mark.field_fault("S-49")
async def test_a_load_returns_when_what_it_names_answers() -> None:
    async with hosting(follow_s=None) as it:
        it.versions.move("risk", stable=8)
        copy = await it.host.load(ModelRef.parse("risk"))
        assert (copy.version, it.shelf.answers()) == (8, 8)
        began_s = asyncio.get_running_loop().time()
        assert (await it.host.load(ModelRef.parse("risk"))).version == 8
        assert asyncio.get_running_loop().time() == began_s
        pinned = await it.host.load(ModelRef.parse("risk@5"))
        assert pinned.version == 5
        assert [hosted.version for hosted in it.shelf.hosted["risk"]] == [5, 8]
        assert it.shelf.shows["risk"].preferred == 8


async def test_a_load_that_fails_says_why_and_leaves_no_trace() -> None:
    async with hosting() as it:
        it.versions.fails["load risk@5"] = DigestMismatchError("it is another")
        with pytest.raises(DigestMismatchError, match="it is another"):
            await it.host.load(ModelRef.parse("risk@5"))
        with pytest.raises(ModelNotFoundError, match=r"risk@nightly .*stable"):
            await it.host.load(ModelRef.parse("risk@nightly"))
        with pytest.raises(ModelNotFoundError):
            await it.host.load(ModelRef.parse("nothing"))
        assert list(it.host.lifecycle.asked) == ["risk"]
        await asyncio.sleep(100)
        assert it.versions.steps.count("load risk@5") == 1
        assert it.shelf.shows["risk"].failed == {}


async def test_a_load_tries_again_what_failed_without_waiting_for_its_pause() -> None:
    async with hosting() as it:
        it.versions.fails["load risk@8"] = BackendError("oh")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(3)
        with pytest.raises(BackendError):
            await it.host.load(ModelRef.parse("risk"))
        assert it.versions.steps.count("load risk@8") == 2
        del it.versions.fails["load risk@8"]
        assert (await it.host.load(ModelRef.parse("risk"))).version == 8


async def test_who_waits_for_a_load_may_leave_and_the_load_goes_on() -> None:
    async with hosting() as it:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await it.host.load(ModelRef.parse("risk@5"))
        await asyncio.sleep(BRING_S)
        assert [hosted.version for hosted in it.shelf.hosted["risk"]] == [5, 7]


async def test_all_who_wait_for_a_load_that_fails_are_told_why_and_it_is_given_up_once() -> None:
    async with hosting() as it:
        it.versions.fails["warm_up risk@8"] = BackendError("it does not run")
        loads = [it.host.load(ModelRef.parse("risk@8")) for _ in range(3)]
        ends = await asyncio.gather(*loads, return_exceptions=True)
        assert [str(end) for end in ends] == ["it does not run"] * 3
        assert it.host.lifecycle.asked[RISK].by_operator == []
        await asyncio.sleep(1_000)
        assert it.versions.steps.count("fetch risk@8") == 1


async def test_a_load_that_fails_when_nobody_waits_any_more_is_given_up_too() -> None:
    async with hosting() as it:
        it.versions.fails["warm_up risk@8"] = BackendError("it does not run")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await it.host.load(ModelRef.parse("risk@8"))
        await asyncio.sleep(1_000)
        assert it.versions.steps.count("fetch risk@8") == 1
        assert it.host.lifecycle.asked[RISK].by_operator == []


async def test_an_unload_returns_when_nothing_is_left_of_it() -> None:
    async with hosting() as it:
        await it.host.load(ModelRef.parse("risk@5"))
        assert await it.host.unload(RISK, Version(5)) == [5]
        assert [hosted.version for hosted in it.versions.open] == [7]
        with pytest.raises(ModelNotFoundError, match="risk@5 is not loaded here"):
            await it.host.unload(RISK, Version(5))
        with pytest.raises(ModelNotFoundError, match="other is not loaded here"):
            await it.host.unload(ModelName("other"), None)
        with pytest.raises(UnloadRefusedError):
            await it.host.unload(RISK, None)
        assert list(it.host.lifecycle.asked) == ["risk"]


async def test_what_leaves_by_itself_is_not_what_an_unload_has_unloaded() -> None:
    async with hosting(versions=FakeVersions(close_s=60.0)) as it:
        it.versions.move("risk", stable=8)
        await it.host.load(ModelRef.parse("risk"))
        assert it.versions_in(State.LEAVING) == ["risk@7"]
        for at in (Version(5), Version(7)):
            with pytest.raises(ModelNotFoundError):
                await it.host.unload(RISK, at)


async def test_a_version_that_is_dropped_while_it_warms_up_counts_as_no_load() -> None:
    async with hosting(follow_s=None) as it, asyncio.TaskGroup() as operators:

        async def load() -> None:
            with pytest.raises(UnloadRefusedError):
                await it.host.load(ModelRef.parse("risk@5"))

        operators.create_task(load())
        await asyncio.sleep(0.5)
        assert it.versions_in(State.WARMING) == ["risk@5"]
        await it.host.unload(RISK, Version(5))
        assert it.host.loads == {("risk", "ready"): 1}


async def test_nothing_is_loaded_once_the_end_has_begun() -> None:
    async with hosting() as it, asyncio.TaskGroup() as ending:
        ending.create_task(it.host.aclose())
        await asyncio.sleep(0.1)
        with pytest.raises(UnloadRefusedError, match="shutting down"):
            await it.host.load(ModelRef.parse("risk@5"))


async def test_an_unload_during_the_load_ends_both() -> None:
    async with hosting() as it, asyncio.TaskGroup() as operators:

        async def load() -> None:
            with pytest.raises(UnloadRefusedError, match="unloaded while it was being loaded"):
                await it.host.load(ModelRef.parse("risk@5"))

        operators.create_task(load())
        await asyncio.sleep(0.2)
        assert await it.host.unload(RISK, Version(5)) == [5]
        assert [hosted.version for hosted in it.shelf.hosted["risk"]] == [7]
