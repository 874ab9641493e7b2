"""The host of model versions on virtual time: loads, switches, failures, the end."""

import asyncio

import pytest

from tests.fakes.versions import FakeVersions
from tests.fixtures.hosting import BRING_S, RISK, hosting
from tidegate.errors import BackendError, DigestMismatchError, PartUnavailableError
from tidegate.ids import ModelName, ModelRef
from tidegate.objects.port import StoreUnavailableError
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.hosting import State
from tidegate_realtime.runtime.following import follow_aliases

pytestmark = pytest.mark.looptime


async def test_a_moved_alias_is_followed_and_the_old_version_is_closed_after_the_switch() -> None:
    async with hosting() as it:
        assert it.shelf.answers() == 7
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1.0 + BRING_S - 0.01)
        assert it.shelf.answers() == 7
        await asyncio.sleep(0.02)
        assert it.shelf.answers() == 8
        assert it.versions_in(State.LEAVING) == ["risk@7"]
        await asyncio.sleep(it.versions.close_s)
        assert it.versions_in(State.LEAVING) == []
        assert it.versions.steps == [
            *("fetch risk@7", "load risk@7", "warm_up risk@7"),
            *("fetch risk@8", "load risk@8", "warm_up risk@8", "close risk@7"),
        ]
        assert it.host.loads == {("risk", "ready"): 2}
        assert it.host.load_seconds == {("risk", "8"): pytest.approx(BRING_S)}


@pytest.mark.field_fault("S-47", "S-51")
async def test_fifty_switches_with_a_corrupt_version_between_never_leave_callers_alone() -> None:
    async with hosting(follow_s=0.1) as it:
        it.versions.fails["fetch risk@666"] = DigestMismatchError("it is another")
        for number in range(50):
            wanted = 8 - number % 2
            it.versions.move("risk", stable=666)
            await asyncio.sleep(0.3)
            assert it.shelf.answers() == (7 if wanted == 8 else 8)
            assert it.shelf.shows["risk"].failed == {666: "digest_mismatch"}
            it.versions.move("risk", stable=wanted)
            await asyncio.sleep(0.1 + BRING_S + 0.05)
            assert it.shelf.answers() == wanted
            assert it.shelf.shows["risk"].failed == {}
            assert len(it.versions.open) <= 2
        await asyncio.sleep(1)
        assert len(it.versions.open) == 1
        assert it.host.loads == {("risk", "ready"): 51, ("risk", "digest_mismatch"): 50}


@pytest.mark.field_fault("S-52")
@pytest.mark.parametrize("step", ["fetch", "load", "warm_up"])
async def test_a_version_that_fails_leaves_nothing_behind_and_is_not_tried_in_a_hot_loop(
    step: str,
) -> None:
    async with hosting() as it:
        it.versions.fails[f"{step} risk@8"] = BackendError("it does not run")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(9)
        assert it.versions.steps.count(f"{step} risk@8") == 1
        assert it.shelf.answers() == 7
        assert [hosted.version for hosted in it.versions.open] == [7]
        (failed,) = [c for c in it.host.lifecycle.copies if c.state is State.FAILED]
        assert failed.failure is not None
        assert (failed.failure.code, failed.failure.message) == ("model_failed", "it does not run")
        await asyncio.sleep(120)
        assert it.versions.steps.count(f"{step} risk@8") == 4  # after 10, 20 and 40 s more
        del it.versions.fails[f"{step} risk@8"]
        it.versions.move("risk", stable=8)  # the same target, but somebody wrote it
        await asyncio.sleep(1 + BRING_S + 0.1)
        assert it.shelf.answers() == 8


async def test_a_bug_in_loading_ends_one_copy_and_nobody_who_serves() -> None:
    async with hosting() as it:
        it.versions.fails["load risk@8"] = ZeroDivisionError("oh")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(3)
        assert it.shelf.answers() == 7
        assert it.shelf.shows["risk"].failed == {8: "internal"}


async def test_moving_back_while_a_version_loads_ends_with_what_was_there() -> None:
    async with hosting() as it:
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1.2)
        assert it.versions_in(State.LOADING) == ["risk@8"]
        it.versions.move("risk", stable=7)
        await asyncio.sleep(5)
        assert it.shelf.answers() == 7
        assert "warm_up risk@8" in it.versions.steps or "close risk@8" in it.versions.steps
        assert [hosted.version for hosted in it.versions.open] == [7]
        assert ("risk", "8") not in it.host.load_seconds


async def test_the_last_of_several_quick_moves_wins_and_does_not_wait_for_the_others() -> None:
    async with hosting(versions=FakeVersions(fetch_s=60.0)) as it:
        it.versions.move("risk", stable=8)
        await asyncio.sleep(2)
        it.versions.fetch_s = 0.1
        it.versions.move("risk", stable=9)
        await asyncio.sleep(1.01 + BRING_S)
        assert it.shelf.answers() == 9
        assert it.versions_in(State.LEAVING)[-1] == "risk@8"
        await asyncio.sleep(60)
        assert it.shelf.answers() == 9
        assert "load risk@8" not in it.versions.steps


async def test_a_warm_up_that_nobody_wants_any_more_is_given_up() -> None:
    async with hosting() as it:
        it.versions.warm_s = 600.0
        it.versions.move("risk", stable=8)
        await asyncio.sleep(3)
        assert it.versions_in(State.WARMING) == ["risk@8"]
        it.versions.move("risk", stable=7)
        await asyncio.sleep(1 + it.versions.close_s + 0.1)
        assert [hosted.version for hosted in it.versions.open] == [7]
        assert it.host.loads == {("risk", "ready"): 1}


async def test_a_warm_up_that_takes_too_long_by_itself_is_a_failure() -> None:
    async with hosting() as it:
        it.versions.fails["warm_up risk@8"] = TimeoutError("of a part that it asked")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(3)
        assert it.shelf.shows["risk"].failed == {8: "internal"}


async def test_what_is_still_going_on_can_be_told_at_the_end() -> None:
    async with hosting(versions=FakeVersions(fetch_s=0.1)) as it:
        it.versions.fetch_s = 60.0
        it.versions.move("risk", stable=8)
        await asyncio.sleep(2)
        assert (it.host.loading, it.host.hosted) == (["risk@8"], ["risk@7"])


@pytest.mark.parametrize("comes_after_s", [700.0, 1e5])
async def test_a_fetch_that_hangs_stops_nobody_else_for_long(comes_after_s: float) -> None:
    async with hosting() as it:
        it.versions.move("other", stable=1)
        it.versions.fetch_s = comes_after_s
        with pytest.raises(PartUnavailableError, match=r"other@1 have not come within 600 s"):
            await it.host.load(ModelRef.parse("other"))
        it.versions.fetch_s = 0.1
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1 + BRING_S + 0.1)
        assert it.shelf.answers() == 8
        if comes_after_s < 1_000:
            assert (await it.host.load(ModelRef.parse("other"))).version == 1
            assert it.versions.steps.count("fetch other@1") == 1  # the one that has come by now


async def test_a_store_that_is_away_changes_nothing_and_is_followed_again_when_it_is_back() -> None:
    async with hosting() as it:
        it.versions.fails["aliases risk"] = StoreUnavailableError("no route")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(100.5)
        assert it.shelf.answers() == 7
        assert it.host.lifecycle.asked[RISK].problem == "no route"
        assert it.host.alias_reads["risk", "failed"] == 100
        del it.versions.fails["aliases risk"]
        await asyncio.sleep(1 + BRING_S + 0.1)
        assert it.shelf.answers() == 8
        assert it.host.lifecycle.asked[RISK].problem is None


async def test_a_version_that_failed_for_the_store_is_tried_when_the_store_is_back() -> None:
    async with hosting() as it:
        it.versions.fails["fetch risk@8"] = StoreUnavailableError("no route")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1.5)
        it.versions.fails = {"aliases risk": StoreUnavailableError("no route")}
        await asyncio.sleep(2)
        it.versions.fails = {}
        await asyncio.sleep(1 + BRING_S + 0.1)
        assert it.shelf.answers() == 8


async def test_a_deleted_alias_and_a_deleted_version_keep_what_serves() -> None:
    async with hosting() as it:
        it.versions.aliases["risk"] = {}
        it.versions.revisions["risk"] += 1
        await asyncio.sleep(5)
        assert it.shelf.answers() == 7
        it.versions.move("risk", stable=901)  # which is not in the store
        await asyncio.sleep(5)
        assert it.shelf.answers() == 7
        assert it.shelf.shows["risk"].failed == {901: "model_not_found"}


async def test_a_pinned_model_is_not_even_looked_at() -> None:
    async with hosting("risk@7") as it:
        it.versions.fails["aliases risk"] = StoreUnavailableError("no route")
        it.versions.move("risk", stable=8)
        await asyncio.sleep(10)
        assert it.shelf.answers() == 7
        assert it.host.alias_reads["risk", "failed"] == 0


async def test_the_least_recently_used_goes_first_and_only_when_it_is_gone_the_next_is_loaded() -> (
    None
):
    versions = FakeVersions(sizes={"risk@7": 40, "old@1": 30, "young@1": 30, "new@1": 30})
    for name in ("old", "young", "new"):
        versions.move(name, stable=1)
    versions.move("risk", stable=7)
    async with hosting(versions=versions, limit_bytes=100) as it:
        for place, name in enumerate(("young", "old")):
            await it.host.load(ModelRef.parse(name))
            it.versions.open[-1].used_at_ns = Nanoseconds(10 - place)
        await it.host.load(ModelRef.parse("new"))
        assert [hosted.name for hosted in it.versions.open] == ["risk", "young", "new"]
        assert it.versions.steps.index("close old@1") < it.versions.steps.index("load new@1")
        assert not it.shelf.hosted["old"]


async def test_a_start_that_fails_closes_what_it_had_opened_and_tells_the_reason() -> None:
    versions = FakeVersions(fails={"load risk@8": DigestMismatchError("it is another")})
    versions.move("risk", stable=7)
    with pytest.raises(ExceptionGroup) as raised:
        async with hosting("risk@7", "risk@8", versions=versions):
            raise AssertionError
    assert raised.group_contains(DigestMismatchError, match="it is another")
    assert versions.open == []


async def test_the_end_waits_for_what_is_on_its_way_and_closes_it() -> None:
    async with hosting() as it:
        it.versions.move("risk", stable=8)
        await asyncio.sleep(1.25)
        assert it.versions_in(State.LOADING) == ["risk@8"]
    assert it.versions.steps[-2:] == ["close risk@7", "close risk@8"]


async def test_replicas_look_at_their_own_moments() -> None:
    looked_at_s: list[float] = []

    class Looking:
        followed = (RISK,)

        async def read_aliases(self, _: ModelName) -> None:
            looked_at_s.append(asyncio.get_running_loop().time())

    draws = iter([0.0, 1.0, 0.5, 0.5])
    every_ns = Nanoseconds(NS_PER_SECOND)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3.5):
            await follow_aliases(Looking(), every_ns=every_ns, draw=lambda: next(draws))
    assert looked_at_s == [pytest.approx(at_s) for at_s in (0.8, 2.0, 3.0)]
