"""Which model versions to bring, to show to callers and to let go: events in, commands out.

Everything follows from two things: what the models are asked for (``core.asked``) and the copies
that there are (``core.hosting``). Each event changes one of the two, and then the difference is
made up for:

- A wanted version without a copy is fetched, loaded and warmed up, one after the other, so that
  those who serve lose as little of the machine as possible. While one is on its way nothing else
  changes for callers.
- When a copy is ready, the aliases that wait for it move to it, all at the same moment, and what no
  reference names any more leaves.
- A copy that fails changes nothing. It is tried again after a pause that doubles with every
  attempt, and at once when somebody writes the aliases or asks for it by hand.
- A copy that comes although nobody wants it any more (the alias moved on, or back) is let go
  without ever having been shown.

Room is made before a copy is loaded, among copies that an operator loaded and no reference of the
start needs: those used least recently go (``core.room``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidegate.errors import SettingError
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.units import Nanoseconds
from tidegate_realtime.core.asked import Asked, Pointed, releasable
from tidegate_realtime.core.hosting import COMING, Copy, Event, State
from tidegate_realtime.core.lifecycle_commands import Command, Fetch, Leave, Load, Show, WakeAt
from tidegate_realtime.core.room import NoRoom, Occupant, make_room

STORE_AWAY: Final = "part_unavailable"


class MemoryLimitError(SettingError):
    """A version does not fit beside what must stay."""

    code = "memory_limit"


class Lifecycle:
    """The models of one gateway."""

    def __init__(self, refs: Sequence[ModelRef], *, memory_limit_bytes: int | None = None) -> None:
        """Begin with nothing in memory.

        Args:
            refs: What is asked for at the start.
            memory_limit_bytes: For the files of all copies together; ``None``: no limit.
        """
        self.asked: dict[ModelName, Asked] = {}
        self.copies: list[Copy] = []
        self.memory_limit_bytes = memory_limit_bytes
        self._shown: dict[ModelName, Show] = {}
        self._wake_at_ns: Nanoseconds | None = None
        for ref in refs:
            self._of(ref.name).at_start.append(ref)

    @property
    def followed(self) -> list[ModelName]:
        """The models that are asked for by an alias."""
        return [name for name, asked in self.asked.items() if asked.followed]

    def copy_of(self, name: ModelName, version: Version) -> Copy | None:
        """Return the copy of a version that is there or on its way, not one that leaves."""
        found = (copy for copy in self._present(name) if copy.version == version)
        return next(found, None)

    def served(self, ref: ModelRef) -> Copy | None:
        """Return the ready copy that a reference means to callers now, if its target is ready."""
        asked = self.asked.get(ref.name)
        target = asked.target(ref) if asked else None
        copy = None if target is None else self.copy_of(ref.name, target)
        return copy if copy is not None and copy.state is State.READY else None

    def on_aliases(self, name: ModelName, pointed: Pointed, now_ns: Nanoseconds) -> list[Command]:
        """Take what the store says of a model's aliases now."""
        asked = self._of(name)
        was_away, is_written = asked.problem is not None, pointed.revision != asked.pointed.revision
        asked.point(pointed)
        for copy in self._failed(name):
            if is_written or (was_away and copy.failure and copy.failure.code == STORE_AWAY):
                copy.make_due(now_ns)
        return self._settle(now_ns)

    def on_unreadable(self, name: ModelName, problem: str) -> bool:
        """Note that the aliases could not be read; everything stays. Return whether that is new."""
        asked = self.asked.get(name)
        if asked is None:
            return False
        is_new = asked.problem is None
        asked.problem = problem
        return is_new

    def on_asked(self, ref: ModelRef, pointed: Pointed, now_ns: Nanoseconds) -> list[Command]:
        """Bring what an operator asks for, at once even if it failed just now.

        Args:
            ref: What is asked for.
            pointed: What the store says of the model's aliases now.
            now_ns: Now.
        """
        asked = self._of(ref.name)
        asked.add(ref)
        asked.point(pointed)
        for copy in self._failed(ref.name):
            if copy.version == asked.target(ref):
                copy.make_due(now_ns)
        return self._settle(now_ns)

    def on_released(
        self, name: ModelName, at: Alias | Version | None, now_ns: Nanoseconds
    ) -> list[Command]:
        """Let go of what an operator wants to be rid of.

        Raises:
            UnloadRefusedError: It must stay.
        """
        asked = self._of(name)
        asked.forget(releasable(asked, at, self._ready(name)))
        return self._settle(now_ns)

    def on_given_up(self, ref: ModelRef, now_ns: Nanoseconds) -> list[Command]:
        """Forget what an operator asked for in vain, so that it is as if nobody had asked."""
        asked = self._of(ref.name)
        if ref not in asked.at_start:
            asked.forget([ref])
        return self._settle(now_ns)

    def on_fetched(
        self,
        copy: Copy,
        size_bytes: int,
        used_at_ns: Mapping[Copy, Nanoseconds],
        now_ns: Nanoseconds,
    ) -> list[Command]:
        """Find room for a copy whose files are here.

        Args:
            copy: Being fetched, unless it leaves.
            size_bytes: Of its files.
            used_at_ns: When each ready copy was asked last.
            now_ns: Now.

        Raises:
            MemoryLimitError: Nothing that may go would make room enough; nothing has changed.
        """
        if copy.state is State.FETCHING:
            self._evict_for(copy, size_bytes, used_at_ns)
            copy.advance(Event.FETCHED)
            copy.size_bytes = size_bytes
        return self._settle(now_ns)

    def on_loaded(self, copy: Copy, now_ns: Nanoseconds) -> list[Command]:
        """Note that a copy is in memory."""
        return self._step(copy, State.LOADING, Event.LOADED, now_ns)

    def on_warmed(self, copy: Copy, now_ns: Nanoseconds) -> list[Command]:
        """Note that a copy may be shown."""
        copy.failure = None
        return self._step(copy, State.WARMING, Event.WARMED, now_ns)

    def on_failed(self, copy: Copy, code: str, message: str, now_ns: Nanoseconds) -> list[Command]:
        """Note that a copy did not become ready; of one that leaves, nobody wants to know."""
        if copy.state in COMING:
            copy.fail(code, message, now_ns)
        return self._settle(now_ns)

    def on_gone(self, copy: Copy, now_ns: Nanoseconds) -> list[Command]:
        """Note that nothing is left of a copy that was to leave."""
        copy.advance(Event.GONE)
        self.copies.remove(copy)
        return self._settle(now_ns)

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """Try again what is due."""
        return self._settle(now_ns)

    def on_stop(self, now_ns: Nanoseconds) -> list[Command]:
        """Let everything go: the process ends."""
        for asked in self.asked.values():
            asked.forget(asked.refs)
        return [c for c in self._settle(now_ns) if not isinstance(c, Show)]

    def _of(self, name: ModelName) -> Asked:
        return self.asked.setdefault(name, Asked(name=name))

    def _present(self, name: ModelName) -> list[Copy]:
        return [c for c in self.copies if c.name == name and c.state is not State.LEAVING]

    def _ready(self, name: ModelName) -> set[Version]:
        return {copy.version for copy in self._present(name) if copy.state is State.READY}

    def _failed(self, name: ModelName) -> list[Copy]:
        return [copy for copy in self._present(name) if copy.state is State.FAILED]

    def _step(self, copy: Copy, state: State, event: Event, now_ns: Nanoseconds) -> list[Command]:
        if copy.state is state:  # else it leaves, and whoever brings it finds that out
            copy.advance(event)
        return self._settle(now_ns)

    def _evict_for(
        self, copy: Copy, size_bytes: int, used_at_ns: Mapping[Copy, Nanoseconds]
    ) -> None:
        limit_bytes = self.memory_limit_bytes
        if limit_bytes is None:
            return
        others = [c for c in self.copies if c is not copy and c.state is not State.LEAVING]
        occupants = [
            Occupant(
                size_bytes=other.size_bytes,
                may_go=other in used_at_ns and self._may_go(other, newcomer=copy),
                used_at_ns=used_at_ns.get(other, Nanoseconds(0)),
            )
            for other in others
        ]
        going = make_room(size_bytes, occupants, limit_bytes=limit_bytes)
        if isinstance(going, NoRoom):
            raise MemoryLimitError(_no_room(copy, size_bytes, going, limit_bytes))
        for place in going:
            asked = self._of(others[place].name)
            asked.forget(asked.refs_to(others[place].version))

    def _may_go(self, copy: Copy, *, newcomer: Copy) -> bool:
        asked = self._of(copy.name)
        staying = set(asked.at_start)
        if newcomer.name == copy.name:  # what brings the newcomer would be forgotten with it
            staying |= set(asked.refs_to(newcomer.version))
        return staying.isdisjoint(asked.refs_to(copy.version))

    def _settle(self, now_ns: Nanoseconds) -> list[Command]:
        """Make up for the difference between what is asked for and what there is."""
        commands: list[Command] = []
        for asked in list(self.asked.values()):
            asked.apply(self._ready(asked.name))
            leaving = [c for c in self._present(asked.name) if c.version not in asked.kept]
            commands += self._show(asked, leaving)
            commands += self._let_go(leaving)
            if not asked.refs and not self._present(asked.name):
                del self.asked[asked.name]
        commands += self._admit()
        commands += self._begin(now_ns)
        return [*commands, *self._wake()]

    def _show(self, asked: Asked, leaving: Iterable[Copy]) -> list[Command]:
        gone = set(leaving)
        present = [copy for copy in self._present(asked.name) if copy not in gone]
        ready = sorted(
            (copy for copy in present if copy.state is State.READY), key=lambda copy: copy.version
        )
        show = Show(
            name=asked.name,
            copies=tuple(ready),
            aliases=asked.shown_aliases(),
            preferred=asked.preferred(copy.version for copy in ready),
            coming=frozenset(copy.version for copy in present if copy.state in COMING),
            failed={copy.version: copy.failure.code for copy in present if copy.failure},
        )
        if self._shown.get(asked.name, Show(name=asked.name)) == show:
            return []
        self._shown[asked.name] = show
        return [show]

    def _let_go(self, leaving: Iterable[Copy]) -> list[Command]:
        commands: list[Command] = []
        for copy in leaving:
            had_failed = copy.state is State.FAILED
            copy.advance(Event.UNWANTED)
            if had_failed:
                self.copies.remove(copy)
            else:
                commands.append(Leave(copy))
        return commands

    def _admit(self) -> list[Command]:
        """Let a copy load whose room has become free."""
        held_bytes = sum(copy.size_bytes for copy in self.copies)
        limit_bytes = self.memory_limit_bytes
        commands: list[Command] = []
        for copy in self.copies:
            fits = limit_bytes is None or held_bytes <= limit_bytes
            if copy.state is State.LOADING and not copy.may_load and fits:
                copy.may_load = True
                commands.append(Load(copy))
        return commands

    def _begin(self, now_ns: Nanoseconds) -> list[Command]:
        """Begin to bring the next copy, unless one is on its way."""
        if any(copy.state in COMING for copy in self.copies):
            return []
        for asked in self.asked.values():
            for version in asked.wanted:
                copy = self.copy_of(asked.name, version)
                if copy is None:
                    copy = Copy(name=asked.name, version=version)
                    self.copies.append(copy)
                elif not copy.is_due(now_ns):
                    continue
                else:
                    copy.advance(Event.RETRIED)
                return [Fetch(copy), *self._show(asked, ())]
        return []

    def _wake(self) -> list[Command]:
        due = [copy.retry_at_ns for copy in self.copies if copy.retry_at_ns is not None]
        at_ns = min(due, default=None)
        if any(copy.state in COMING for copy in self.copies):
            at_ns = None  # it is looked at when that one has come
        if at_ns == self._wake_at_ns:
            return []
        self._wake_at_ns = at_ns
        return [WakeAt(at_ns)]


def _no_room(copy: Copy, size_bytes: int, found: NoRoom, limit_bytes: int) -> str:
    return (
        f"{copy} needs {_mb(size_bytes)} MB, and {_mb(max(0, found.free_bytes))} of "
        f"serve.memory_limit_mb = {_mb(limit_bytes)} would be free for it; what was asked for at "
        "the start stays, and so does the version that it replaces until it is ready. Raise the "
        "limit, or unload something."
    )


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.4g}"
