"""What one model is asked for, by whom, and which versions that comes to.

A reference by alias follows the alias: its target is where the store last said that the alias
points, and it is applied, that is shown to callers, once a copy of the target is ready. A
reference by number never moves. An alias that is deleted, or whose store is away, keeps its last
target: losing a name must not take down what answers under it.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tidegate.errors import RequestRejectedError
from tidegate.ids import DEFAULT_ALIAS, Alias, ModelName, ModelRef, Version


class UnloadRefusedError(RequestRejectedError):
    """What is asked would take away what must stay."""

    code = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointed:
    """The aliases of one model as the store has them."""

    aliases: Mapping[Alias, Version] = field(default_factory=dict)
    revision: int = 0
    """Grows with every write, also with one that moves an alias to where it is."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """The references to one model; changed by ``Lifecycle`` only."""

    name: ModelName
    at_start: list[ModelRef] = field(default_factory=list)
    by_operator: list[ModelRef] = field(default_factory=list)
    pointed: Pointed = field(default_factory=Pointed)
    targets: dict[Alias, Version] = field(default_factory=dict)
    """Of the aliases that are followed."""
    applied: dict[Alias, Version] = field(default_factory=dict)
    """What callers get under them; behind its target while that one is on its way."""
    problem: str | None = None
    """Why the aliases could not be read the last time."""

    @property
    def refs(self) -> list[ModelRef]:
        """Every reference once, those of the start first."""
        return list(dict.fromkeys([*self.at_start, *self.by_operator]))

    @property
    def followed(self) -> list[Alias]:
        """The aliases whose moves matter."""
        return [Alias(str(ref.at)) for ref in self.refs if isinstance(ref.at, str)]

    @property
    def missing(self) -> list[Alias]:
        """Followed aliases that are in the store no more."""
        return [alias for alias in self.followed if alias not in self.pointed.aliases]

    @property
    def wanted(self) -> list[Version]:
        """The versions that the references name now, each once."""
        found = (self.target(ref) for ref in self.refs)
        return list(dict.fromkeys(version for version in found if version is not None))

    @property
    def kept(self) -> set[Version]:
        """The versions that may stay: those wanted, and those that still stand in for one."""
        return {*self.wanted, *self.applied.values()}

    def target(self, ref: ModelRef) -> Version | None:
        """Return the version that a reference names; ``None`` if its alias never pointed."""
        return ref.at if isinstance(ref.at, int) else self.targets.get(ref.at)

    def point(self, pointed: Pointed) -> None:
        """Take what the store says, and forget what was followed by nobody."""
        self.pointed, self.problem = pointed, None
        self.aim()

    def aim(self) -> None:
        """Bring the targets in line with references and store."""
        followed = self.followed
        found = {**self.targets, **self.pointed.aliases}
        self.targets = {alias: found[alias] for alias in followed if alias in found}
        self.applied = {alias: at for alias, at in self.applied.items() if alias in followed}

    def apply(self, ready: AbstractSet[Version]) -> None:
        """Let each followed alias show its target if that is ready."""
        for alias, version in self.targets.items():
            if version in ready:
                self.applied[alias] = version

    def shown_aliases(self) -> dict[Alias, Version]:
        """Return what each alias means to callers; nothing of a model that nobody asks for."""
        followed = self.followed
        if not self.refs:
            return {}
        others = {a: v for a, v in self.pointed.aliases.items() if a not in followed}
        return {**others, **self.applied}

    def preferred(self, ready: Iterable[Version]) -> Version | None:
        """Return the version for callers who name none: ``stable``, else what was asked first."""
        available = list(ready)
        order = [self.shown_aliases().get(DEFAULT_ALIAS)]
        order += map(self._stand_in, self.refs)
        return next((v for v in [*order, *available] if v in available), None)

    def add(self, ref: ModelRef) -> None:
        """Note that an operator asks for something."""
        if ref not in self.refs:
            self.by_operator.append(ref)
        self.aim()

    def forget(self, refs: Iterable[ModelRef]) -> None:
        """Ask for these no more."""
        gone = set(refs)
        self.at_start = [ref for ref in self.at_start if ref not in gone]
        self.by_operator = [ref for ref in self.by_operator if ref not in gone]
        self.aim()

    def refs_to(self, version: Version) -> list[ModelRef]:
        """Return what keeps a version here."""
        return [ref for ref in self.refs if version in self.standing(ref)]

    def standing(self, ref: ModelRef) -> set[Version | None]:
        """Return what a reference names, and what stands in for it until that is ready."""
        return {self.target(ref), self._stand_in(ref)}

    def _stand_in(self, ref: ModelRef) -> Version | None:
        return ref.at if isinstance(ref.at, int) else self.applied.get(ref.at)


def releasable(
    asked: Asked, at: Alias | Version | None, ready: AbstractSet[Version]
) -> list[ModelRef]:
    """Return the references that end if an operator unloads something.

    Args:
        asked: What the model is asked for.
        at: A version, an alias, or ``None`` for the whole model.
        ready: The versions that answer.

    Raises:
        UnloadRefusedError: It must stay; the message says why, and what to do instead.
    """
    if at is None:
        if asked.at_start:
            raise UnloadRefusedError(
                f"{asked.name} was asked for when the server was started, and its last version "
                "stays. Start the server without it, or point its alias at another version."
            )
        return asked.by_operator
    if isinstance(at, str):
        return _releasable_alias(asked, at)
    return _releasable_version(asked, at, ready)


def _releasable_alias(asked: Asked, alias: Alias) -> list[ModelRef]:
    ref = ModelRef(asked.name, alias)
    if ref in asked.at_start:
        raise UnloadRefusedError(
            f"{ref} was asked for when the server was started, and stays. Start the server "
            "without it, or point the alias at another version."
        )
    return [ref] if ref in asked.by_operator else []


def _releasable_version(
    asked: Asked, version: Version, ready: AbstractSet[Version]
) -> list[ModelRef]:
    refs = asked.refs_to(version)
    followed = [str(ref.at) for ref in refs if isinstance(ref.at, str)]
    others = [ref for ref in asked.refs if ref not in refs]
    if followed:
        raise UnloadRefusedError(
            f"{asked.name}@{version} answers as {', '.join(followed)}. Point "
            f"{'that alias' if len(followed) == 1 else 'these aliases'} at another version first."
        )
    if asked.at_start and not any(ready & {*asked.standing(ref)} for ref in others):
        raise UnloadRefusedError(
            f"{asked.name}@{version} is the last version of a model that was asked for when the "
            "server was started, and stays. Load another version first."
        )
    return refs
