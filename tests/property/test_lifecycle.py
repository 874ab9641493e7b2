"""Any order of moves, loads, failures, unloads and ends: what must hold after each of them."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.asked import Pointed, UnloadRefusedError
from tidegate_realtime.core.hosting import COMING, Copy, State
from tidegate_realtime.core.lifecycle import Lifecycle, MemoryLimitError
from tidegate_realtime.core.lifecycle_commands import Command, Fetch, Leave, Load, Show

NAMES = [ModelName("risk"), ModelName("fraud")]
ALIASES = [Alias("stable"), Alias("candidate")]
LIMIT_BYTES = 100
numbers = st.integers(1, 4).map(Version)


class Gateways(RuleBasedStateMachine):
    """A lifecycle, and what a driver that obeys it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = Nanoseconds(0)
        refs = [ModelRef.parse("risk"), ModelRef.parse("fraud@1")]
        self.lifecycle = Lifecycle(refs, memory_limit_bytes=LIMIT_BYTES)
        self.revision = 0
        self.stores: dict[ModelName, dict[Alias, Version]] = {name: {} for name in NAMES}
        self.fetching: list[Copy] = []
        self.loading: list[Copy] = []
        self.warming: list[Copy] = []
        self.leaving: list[Copy] = []
        self.shown: dict[ModelName, Show] = {}
        self.move(name=NAMES[0], alias=ALIASES[0], version=Version(1))
        for name in NAMES:  # a start that fails ends the process
            self.read(name=name)
            self.fetch(size_bytes=10)
            self.load()
            self.warm(works=True)

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Fetch(copy):
                    self.fetching.append(copy)
                case Load(copy):
                    self.loading.append(copy)
                case Leave(copy):
                    # Callers were shown something else before.
                    found = self.shown.get(copy.name)
                    assert found is None or copy not in found.copies
                    self.leaving.append(copy)
                case Show():
                    self.shown[command.name] = command
                case _:
                    pass

    @rule(name=st.sampled_from(NAMES), alias=st.sampled_from(ALIASES), version=numbers)
    def move(self, name: ModelName, alias: Alias, version: Version) -> None:
        self.stores[name][alias] = version
        self.revision += 1

    @rule(name=st.sampled_from(NAMES), alias=st.sampled_from(ALIASES))
    def delete_alias(self, name: ModelName, alias: Alias) -> None:
        self.stores[name].pop(alias, None)
        self.revision += 1

    def pointed(self, name: ModelName) -> Pointed:
        return Pointed(aliases=dict(self.stores[name]), revision=self.revision)

    @rule(name=st.sampled_from(NAMES))
    def read(self, name: ModelName) -> None:
        if name in self.lifecycle.asked:
            self.obey(self.lifecycle.on_aliases(name, self.pointed(name), self.now_ns))

    @rule(name=st.sampled_from(NAMES), at=st.one_of(numbers, st.sampled_from(ALIASES)))
    def ask(self, name: ModelName, at: Version | Alias) -> None:
        ref = ModelRef(name, at)
        self.obey(self.lifecycle.on_asked(ref, self.pointed(name), self.now_ns))

    @rule(name=st.sampled_from(NAMES), at=st.one_of(st.none(), numbers, st.sampled_from(ALIASES)))
    def unload(self, name: ModelName, at: Version | Alias | None) -> None:
        before = list(self.lifecycle.copies)
        try:
            self.obey(self.lifecycle.on_released(name, at, self.now_ns))
        except UnloadRefusedError:
            assert self.lifecycle.copies == before

    @precondition(lambda self: self.fetching)
    @rule(size_bytes=st.integers(1, 60))
    def fetch(self, size_bytes: int) -> None:
        copy = self.fetching.pop(0)
        ready = [c for c in self.lifecycle.copies if c.state is State.READY]
        at_ns = {c: Nanoseconds(place) for place, c in enumerate(ready)}
        try:
            self.obey(self.lifecycle.on_fetched(copy, size_bytes, at_ns, self.now_ns))
        except MemoryLimitError as error:
            self.obey(self.lifecycle.on_failed(copy, error.code, str(error), self.now_ns))

    @precondition(lambda self: self.loading)
    @rule()
    def load(self) -> None:
        copy = self.loading.pop(0)
        self.obey(self.lifecycle.on_loaded(copy, self.now_ns))  # perhaps it is to leave by now
        self.warming.append(copy)

    @precondition(lambda self: self.warming)
    @rule(works=st.booleans())
    def warm(self, works: bool) -> None:
        copy = self.warming.pop(0)
        if works:
            self.obey(self.lifecycle.on_warmed(copy, self.now_ns))
        else:
            self.obey(self.lifecycle.on_failed(copy, "model_failed", "so", self.now_ns))

    @precondition(lambda self: self.leaving)
    @rule(place=st.integers(0, 9))
    def end(self, place: int) -> None:
        copy = self.leaving.pop(place % len(self.leaving))
        for steps in (self.fetching, self.loading, self.warming):
            if copy in steps:
                steps.remove(copy)
        self.obey(self.lifecycle.on_gone(copy, self.now_ns))

    @rule(seconds=st.integers(1, 400))
    def wait(self, seconds: int) -> None:
        self.now_ns = Nanoseconds(self.now_ns + seconds * NS_PER_SECOND)
        self.obey(self.lifecycle.on_tick(self.now_ns))

    @invariant()
    def callers_find_only_what_is_warm(self) -> None:
        for show in self.shown.values():
            assert all(copy.state is State.READY for copy in show.copies)
            versions = [copy.version for copy in show.copies]
            assert versions == sorted(set(versions))
            assert (show.preferred in versions) == bool(versions)

    @invariant()
    def everything_that_is_ready_is_shown(self) -> None:
        ready = {copy for copy in self.lifecycle.copies if copy.state is State.READY}
        assert ready == {copy for show in self.shown.values() for copy in show.copies}

    @invariant()
    def a_model_of_the_start_always_answers(self) -> None:
        for name in NAMES:
            assert self.shown[name].copies
        stable = self.shown[NAMES[0]].aliases[ALIASES[0]]
        assert stable in [copy.version for copy in self.shown[NAMES[0]].copies]

    @invariant()
    def one_is_brought_at_a_time(self) -> None:
        assert sum(copy.state in COMING for copy in self.lifecycle.copies) <= 1

    @invariant()
    def what_is_in_memory_fits(self) -> None:
        in_memory = [
            copy.size_bytes
            for copy in self.lifecycle.copies
            if copy.state in {State.WARMING, State.READY}
            or (copy.state is State.LOADING and copy.may_load)
        ]
        assert sum(in_memory) <= LIMIT_BYTES

    @invariant()
    def the_driver_knows_of_every_copy_that_moves(self) -> None:
        moving = {c for c in self.lifecycle.copies if c.state is State.LEAVING}
        assert moving == set(self.leaving)

    @invariant()
    def without_anything_to_wait_for_the_store_is_what_is_served(self) -> None:
        busy = self.fetching or self.loading or self.warming or self.leaving
        failed = any(copy.state is State.FAILED for copy in self.lifecycle.copies)
        for asked in [] if busy or failed else self.lifecycle.asked.values():
            assert asked.applied == asked.targets


Gateways.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestAnyOrderOfEvents = Gateways.TestCase
