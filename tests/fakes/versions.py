"""Versions that take as long to come as a test says, on virtual time, and fail as it says."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.errors import ModelNotFoundError
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.units import Nanoseconds
from tidegate_realtime.core.asked import Pointed
from tidegate_realtime.core.lifecycle_commands import Show


@dataclass(eq=False)
class FakeHosted:
    """One copy in memory."""

    name: ModelName
    version: Version
    used_at_ns: Nanoseconds
    closed: bool = False


@dataclass(frozen=True)
class FakeFiles:
    name: ModelName
    version: Version
    size_bytes: int


@dataclass
class FakeVersions:
    """A store, and what loads from it."""

    fetch_s: float = 0.1
    load_s: float = 0.2
    warm_s: float = 0.7
    close_s: float = 0.3
    give_up_s: float = 0.0
    """What a warm-up that is cancelled takes to end."""
    read_s: float = 0.0
    """To say where aliases pointed when it was asked; 0: at once."""
    aliases: dict[str, dict[str, int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    """In bytes, by ``name@version``; 1 for others."""
    fails: dict[str, Exception] = field(default_factory=dict)
    """By step, such as ``fetch risk@8``, or ``aliases risk``."""
    steps: list[str] = field(default_factory=list)
    """What began, in order."""
    open: list[FakeHosted] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    """Of aliases that took their time."""

    def move(self, name: str, **aliases: int) -> None:
        """Point these aliases elsewhere, as one write."""
        self.aliases[name] = {**self.aliases.get(name, {}), **aliases}
        self.revisions[name] += 1

    async def pointed(self, name: ModelName) -> Pointed:
        named = {Alias(a): Version(v) for a, v in self.aliases.get(name, {}).items()}
        pointed = Pointed(aliases=named, revision=self.revisions[name])
        if self.read_s:
            self.reads += 1
            await _spend(self.read_s)
        self._check(f"aliases {name}")
        return pointed

    async def resolve(self, ref: ModelRef) -> Pointed:
        pointed = await self.pointed(ref.name)
        if isinstance(ref.at, str) and ref.at not in pointed.aliases:
            raise ModelNotFoundError(f"{ref} is not there, but {list(pointed.aliases)}")
        return pointed

    async def fetch(self, name: ModelName, version: Version) -> FakeFiles:
        await self._step(f"fetch {name}@{version}", self.fetch_s)
        if version > 900:
            raise ModelNotFoundError(f"{name}@{version} is not in the store")
        return FakeFiles(name, version, self.sizes.get(f"{name}@{version}", 1))

    async def load(self, files: FakeFiles) -> FakeHosted:
        await self._step(f"load {files.name}@{files.version}", self.load_s)
        hosted = FakeHosted(files.name, files.version, Nanoseconds(0))
        self.open.append(hosted)
        return hosted

    async def warm_up(self, hosted: FakeHosted) -> None:
        try:
            await self._step(f"warm_up {hosted.name}@{hosted.version}", self.warm_s)
        except asyncio.CancelledError:
            await _spend(self.give_up_s)
            raise

    async def close(self, hosted: FakeHosted) -> None:
        await self._step(f"close {hosted.name}@{hosted.version}", self.close_s)
        hosted.closed = True
        self.open.remove(hosted)

    async def _step(self, step: str, took_s: float) -> None:
        self.steps.append(step)
        await _spend(took_s)
        self._check(step)

    def _check(self, step: str) -> None:
        if step in self.fails:
            raise self.fails[step]


async def _spend(took_s: float) -> None:
    """Take time of the loop's clock, which may be virtual."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(took_s, over.set)
    await over.wait()


@dataclass
class FakeShelf:
    """What callers would find."""

    shows: dict[str, Show] = field(default_factory=dict)
    hosted: dict[str, Sequence[FakeHosted]] = field(default_factory=dict)

    def show(self, show: Show, hosted: Sequence[FakeHosted]) -> None:
        assert [each.version for each in hosted] == [copy.version for copy in show.copies]
        assert not any(each.closed for each in hosted)
        self.shows[show.name] = show
        self.hosted[show.name] = hosted

    def answers(self, name: str = "risk", alias: str = "stable") -> int:
        """The version that answers under an alias."""
        version = self.shows[name].aliases[Alias(alias)]
        assert version in [each.version for each in self.hosted[name]]
        return version
