"""What the lifecycle decides, event by event; nothing runs."""

import itertools
from collections.abc import Sequence

import pytest

from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.asked import Pointed, UnloadRefusedError
from tidegate_realtime.core.hosting import TABLE, Copy, Event, State
from tidegate_realtime.core.lifecycle import Lifecycle, MemoryLimitError
from tidegate_realtime.core.lifecycle_commands import Command, Fetch, Leave, Load, Show, WakeAt
from tidegate_realtime.core.request import IllegalTransitionError
from tidegate_realtime.core.room import NoRoom, Occupant, make_room

NOW = Nanoseconds(0)
RISK = ModelName("risk")
STABLE = Alias("stable")


def at_s(seconds: float) -> Nanoseconds:
    return Nanoseconds(int(seconds * NS_PER_SECOND))


class Driven:
    """A lifecycle that a test drives by hand."""

    def __init__(self, *refs: str, limit_bytes: int | None = None) -> None:
        self.lifecycle = Lifecycle(list(map(ModelRef.parse, refs)), memory_limit_bytes=limit_bytes)
        self.revision = 0
        self.used: dict[Copy, Nanoseconds] = {}

    def point(self, name: str = "risk", now_ns: Nanoseconds = NOW, **aliases: int) -> list[Command]:
        self.revision += 1
        return self.lifecycle.on_aliases(ModelName(name), self.pointed(**aliases), now_ns)

    def pointed(self, **aliases: int) -> Pointed:
        named = {Alias(alias): Version(version) for alias, version in aliases.items()}
        return Pointed(aliases=named, revision=self.revision)

    def ask(self, ref: str, now_ns: Nanoseconds = NOW, **aliases: int) -> list[Command]:
        return self.lifecycle.on_asked(ModelRef.parse(ref), self.pointed(**aliases), now_ns)

    def copy(self, version: int, name: str = "risk") -> Copy:
        found = self.lifecycle.copy_of(ModelName(name), Version(version))
        assert found is not None
        return found

    def bring(self, version: int, name: str = "risk", size_bytes: int = 1) -> list[Command]:
        """Bring a copy that is being fetched until it is ready; return the last commands."""
        copy = self.copy(version, name)
        assert Load(copy) in self.lifecycle.on_fetched(copy, size_bytes, self.used, NOW)
        self.lifecycle.on_loaded(copy, NOW)
        return self.lifecycle.on_warmed(copy, NOW)


def shown(commands: Sequence[Command]) -> Show:
    (show,) = [command for command in commands if isinstance(command, Show)]
    return show


def versions(show: Show) -> list[int]:
    return [copy.version for copy in show.copies]


def served_at(version: int) -> Driven:
    """``risk@stable``, ready at a version."""
    driven = Driven("risk")
    driven.point(stable=version)
    driven.bring(version)
    return driven


@pytest.mark.parametrize("pair", list(itertools.product(State, Event)))
def test_a_copy_goes_where_the_table_says_and_nowhere_else(pair: tuple[State, Event]) -> None:
    copy = Copy(name=RISK, version=Version(7), state=pair[0])
    if pair in TABLE:
        copy.advance(pair[1])
        assert copy.state is TABLE[pair]
    else:
        with pytest.raises(IllegalTransitionError, match=r"risk@7 in"):
            copy.advance(pair[1])
        assert copy.state is pair[0]


def test_a_version_is_shown_only_when_it_is_warm() -> None:
    driven = Driven("risk")
    commands = driven.point(stable=7)
    copy = driven.copy(7)
    assert commands == [Fetch(copy), Show(name=RISK, coming=frozenset({Version(7)}))]
    assert driven.lifecycle.on_fetched(copy, 5, {}, NOW) == [Load(copy)]
    assert driven.lifecycle.on_loaded(copy, NOW) == []
    show = shown(driven.lifecycle.on_warmed(copy, NOW))
    assert (versions(show), show.aliases, show.preferred) == ([7], {"stable": 7}, 7)
    assert show.coming == frozenset()


@pytest.mark.field_fault("S-47", "S-52")
def test_the_new_version_is_shown_before_the_old_one_leaves_and_both_in_one_moment() -> None:
    driven = served_at(7)
    old = driven.copy(7)
    moving = driven.point(stable=8)
    assert Fetch(driven.copy(8)) in moving
    assert shown(moving).aliases == {"stable": 7}
    assert versions(shown(moving)) == [7]
    switch = driven.bring(8)
    assert (versions(shown(switch)), shown(switch).aliases) == ([8], {"stable": 8})
    assert switch.index(Leave(old)) > switch.index(shown(switch))
    assert driven.lifecycle.on_gone(old, NOW) == []
    assert [str(copy) for copy in driven.lifecycle.copies] == ["risk@8"]


def test_a_pinned_version_never_moves() -> None:
    driven = Driven("risk@7")
    driven.point(stable=7)
    driven.bring(7)
    assert driven.lifecycle.followed == []
    show = shown(driven.point(stable=8))
    assert (versions(show), show.preferred, show.aliases) == ([7], 7, {"stable": 8})


@pytest.mark.field_fault("S-51")
def test_a_version_that_the_alias_left_while_it_came_is_never_shown() -> None:
    driven = served_at(7)
    driven.point(stable=8)
    passed_over = driven.copy(8)
    back = driven.point(stable=7)
    assert Leave(passed_over) in back
    assert shown(back).coming == frozenset()
    late = driven.lifecycle.on_fetched(passed_over, 1, {}, NOW)
    assert late == []
    assert driven.lifecycle.on_gone(passed_over, NOW) == []
    assert driven.copy(7).state is State.READY


def test_of_several_moves_in_quick_succession_the_last_one_counts() -> None:
    driven = served_at(7)
    for version in (8, 9, 10):
        driven.point(stable=version)
    coming = [copy.version for copy in driven.lifecycle.copies if copy.state is State.FETCHING]
    assert coming == [10]
    assert versions(shown(driven.bring(10))) == [10]
    leaving = {copy.version for copy in driven.lifecycle.copies if copy.state is State.LEAVING}
    assert leaving == {7, 8, 9}


def test_a_version_that_is_asked_for_again_while_it_leaves_gets_another_copy() -> None:
    driven = served_at(7)
    leaving = driven.copy(7)
    driven.point(stable=8)
    driven.bring(8)
    commands = driven.point(stable=7)
    assert Fetch(driven.copy(7)) in commands
    assert driven.copy(7) is not leaving
    driven.lifecycle.on_gone(leaving, NOW)
    assert versions(shown(driven.bring(7))) == [7]


@pytest.mark.field_fault("S-52")
@pytest.mark.parametrize("state", [State.FETCHING, State.LOADING, State.WARMING])
def test_a_version_that_fails_changes_nothing_and_says_why(state: State) -> None:
    driven = served_at(7)
    driven.point(stable=8)
    bad = driven.copy(8)
    if state is not State.FETCHING:
        driven.lifecycle.on_fetched(bad, 1, {}, NOW)
    if state is State.WARMING:
        driven.lifecycle.on_loaded(bad, NOW)
    commands = driven.lifecycle.on_failed(bad, "digest_mismatch", "it is another", NOW)
    show = shown(commands)
    assert (versions(show), show.aliases, show.preferred) == ([7], {"stable": 7}, 7)
    assert show.failed == {8: "digest_mismatch"}
    assert not any(isinstance(command, Leave) for command in commands)
    assert bad.failure is not None
    assert bad.failure.message == "it is another"


def test_a_failed_version_is_tried_again_after_pauses_that_double_up_to_five_minutes() -> None:
    driven = served_at(7)
    driven.point(stable=8)
    bad, now_ns, pauses_s = driven.copy(8), NOW, []
    for _ in range(8):
        commands = driven.lifecycle.on_failed(bad, "digest_mismatch", "so", now_ns)
        (wake,) = [command for command in commands if isinstance(command, WakeAt)]
        assert wake.at_ns is not None
        pauses_s.append((wake.at_ns - now_ns) // NS_PER_SECOND)
        assert driven.lifecycle.on_tick(Nanoseconds(wake.at_ns - 1)) == []
        now_ns = wake.at_ns
        assert Fetch(bad) in driven.lifecycle.on_tick(now_ns)
    assert pauses_s == [10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("how", ["alias written", "asked by hand", "store is back"])
def test_a_failed_version_is_tried_at_once_when_there_is_a_reason_to(how: str) -> None:
    driven = served_at(7)
    driven.point(stable=8)
    bad = driven.copy(8)
    driven.lifecycle.on_failed(bad, "part_unavailable", "away", NOW)
    read_again = driven.lifecycle.on_aliases(RISK, driven.pointed(stable=8), at_s(1))
    assert Fetch(bad) not in read_again
    match how:
        case "alias written":
            commands = driven.point(stable=8)
        case "asked by hand":
            commands = driven.ask("risk", stable=8)
        case _:
            driven.lifecycle.on_unreadable(RISK, "away")
            commands = driven.lifecycle.on_aliases(RISK, driven.pointed(stable=8), at_s(1))
    assert Fetch(bad) in commands


def test_a_failure_is_forgotten_when_the_alias_leaves_it() -> None:
    driven = served_at(7)
    driven.point(stable=8)
    driven.lifecycle.on_failed(driven.copy(8), "digest_mismatch", "so", NOW)
    show = shown(driven.point(stable=7))
    assert (versions(show), show.failed) == ([7], {})
    assert driven.lifecycle.copy_of(RISK, Version(8)) is None


def test_an_alias_that_is_deleted_keeps_what_it_named() -> None:
    driven = served_at(7)
    driven.point()
    assert driven.copy(7).state is State.READY
    assert driven.lifecycle.asked[RISK].missing == ["stable"]
    show = shown(driven.point(stable=7, candidate=7))
    assert show.aliases == {"stable": 7, "candidate": 7}


def test_a_store_that_is_away_is_told_once_and_changes_nothing() -> None:
    driven = served_at(7)
    assert driven.lifecycle.on_unreadable(RISK, "no route")
    assert not driven.lifecycle.on_unreadable(RISK, "no route")
    assert driven.lifecycle.asked[RISK].problem == "no route"
    assert driven.lifecycle.on_tick(NOW) == []
    driven.point(stable=7)
    assert driven.lifecycle.asked[RISK].problem is None


@pytest.mark.field_fault("S-48")
def test_one_version_is_brought_at_a_time() -> None:
    driven = Driven("risk", "fraud", "risk@6")
    driven.point(stable=7)
    driven.point("fraud", stable=1)
    assert [copy.state for copy in driven.lifecycle.copies] == [State.FETCHING]
    commands = driven.bring(7)
    assert Fetch(driven.copy(6)) in commands
    commands = driven.bring(6)
    assert Fetch(driven.copy(1, "fraud")) in commands


def test_what_an_operator_asks_for_stays_until_it_is_unloaded() -> None:
    driven = served_at(7)
    driven.ask("risk@5", stable=7)
    show = shown(driven.bring(5))
    assert (versions(show), show.preferred) == ([5, 7], 7)
    commands = driven.lifecycle.on_released(RISK, Version(5), NOW)
    assert versions(shown(commands)) == [7]
    assert any(isinstance(command, Leave) for command in commands)


def test_what_an_operator_asked_for_in_vain_is_not_tried_again() -> None:
    driven = served_at(7)
    driven.ask("risk@5", stable=7)
    driven.lifecycle.on_failed(driven.copy(5), "digest_mismatch", "so", NOW)
    driven.lifecycle.on_given_up(ModelRef.parse("risk@5"), NOW)
    assert driven.lifecycle.copy_of(RISK, Version(5)) is None
    driven.lifecycle.on_given_up(ModelRef.parse("risk@stable"), NOW)
    assert driven.copy(7).state is State.READY


def test_a_model_that_an_operator_brought_is_gone_once_it_is_unloaded() -> None:
    driven = served_at(7)
    driven.ask("fraud", stable=1)
    driven.bring(1, "fraud")
    show = shown(driven.lifecycle.on_released(ModelName("fraud"), None, NOW))
    assert show == Show(name=ModelName("fraud"))
    assert list(driven.lifecycle.asked) == [RISK]


@pytest.mark.parametrize(
    ("refs", "at", "reason"),
    [
        (["risk"], None, "was asked for when the server was started"),
        (["risk"], "stable", "was asked for when the server was started"),
        (["risk"], 7, "answers as stable"),
        (["risk@7"], 7, "is the last version of a model that was asked for"),
        (["risk@7"], None, "was asked for when the server was started"),
    ],
)
def test_what_must_stay_is_not_unloaded_and_the_reason_is_told(
    refs: list[str], at: int | str | None, reason: str
) -> None:
    driven = Driven(*refs)
    driven.point(stable=7)
    driven.bring(7)
    with pytest.raises(UnloadRefusedError, match=reason):
        driven.lifecycle.on_released(RISK, at, NOW)  # type: ignore[arg-type] # as ids
    assert driven.copy(7).state is State.READY


def test_one_of_two_pinned_versions_may_go_but_not_the_other() -> None:
    driven = Driven("risk@7", "risk@8")
    driven.point(stable=7)
    driven.bring(7)
    driven.bring(8)
    show = shown(driven.lifecycle.on_released(RISK, Version(7), NOW))
    assert (versions(show), show.preferred) == ([8], 8)
    with pytest.raises(UnloadRefusedError):
        driven.lifecycle.on_released(RISK, Version(8), NOW)


def test_room_is_made_by_what_was_used_least_recently_and_by_no_more_of_it() -> None:
    occupants = [
        Occupant(size_bytes=30, may_go=True, used_at_ns=at_s(3)),
        Occupant(size_bytes=30, may_go=True, used_at_ns=at_s(1)),
        Occupant(size_bytes=30, may_go=False, used_at_ns=at_s(0)),
    ]
    assert make_room(10, occupants, limit_bytes=100) == []
    assert make_room(40, occupants, limit_bytes=100) == [1]
    assert make_room(70, occupants, limit_bytes=100) == [1, 0]
    assert make_room(71, occupants, limit_bytes=100) == NoRoom(70)


def test_a_version_waits_until_those_who_make_room_are_gone() -> None:
    driven = Driven("risk", limit_bytes=100)
    driven.point(stable=7)
    driven.bring(7, size_bytes=40)
    for name in ("old", "young"):
        driven.ask(name, stable=1)
        driven.bring(1, name, size_bytes=30)
    going = driven.copy(1, "old")
    driven.used = {going: at_s(1), driven.copy(1, "young"): at_s(2), driven.copy(7): at_s(0)}
    driven.ask("new", stable=1)
    newcomer = driven.copy(1, "new")
    commands = driven.lifecycle.on_fetched(newcomer, 30, driven.used, NOW)
    assert Leave(going) in commands
    assert Load(newcomer) not in commands
    assert Load(newcomer) in driven.lifecycle.on_gone(going, NOW)
    assert {str(copy) for copy in driven.lifecycle.copies} == {"risk@7", "young@1", "new@1"}


def test_a_version_without_room_fails_with_the_figures_and_nobody_goes_for_it() -> None:
    driven = Driven("risk", limit_bytes=100_000_000)
    driven.point(stable=7)
    driven.bring(7, size_bytes=60_000_000)
    driven.ask("other", stable=1)
    driven.bring(1, "other", size_bytes=10_000_000)
    driven.used = {driven.copy(7): at_s(0), driven.copy(1, "other"): at_s(0)}
    driven.point(stable=8)
    with pytest.raises(MemoryLimitError, match=r"risk@8 needs 60 MB, and 40 of .* = 100"):
        driven.lifecycle.on_fetched(driven.copy(8), 60_000_000, driven.used, NOW)
    assert driven.copy(1, "other").state is State.READY
    show = shown(driven.lifecycle.on_failed(driven.copy(8), "memory_limit", "so", NOW))
    assert show.aliases == {"stable": 7}


def test_what_brings_a_version_does_not_go_for_it() -> None:
    driven = Driven("risk", limit_bytes=100)
    driven.point(stable=7)
    driven.bring(7, size_bytes=10)
    driven.ask("other", stable=1)
    driven.bring(1, "other", size_bytes=50)
    driven.used = {driven.copy(1, "other"): at_s(0)}
    driven.point("other", stable=2)
    with pytest.raises(MemoryLimitError):
        driven.lifecycle.on_fetched(driven.copy(2, "other"), 50, driven.used, NOW)


def test_at_the_end_everything_leaves_and_callers_see_no_difference() -> None:
    driven = served_at(7)
    driven.point(stable=8)
    commands = driven.lifecycle.on_stop(NOW)
    assert commands == [Leave(driven.lifecycle.copies[0]), Leave(driven.lifecycle.copies[1])]
