"""Drives the lifecycle of model versions: gives it its events and obeys its commands, on asyncio.

Each copy has one task, which is its whole life in the order in which it is lived: fetch, load, warm
up, serve until it is to leave, end what is bound to it, close. Fetching and loading are never
cancelled: no thread can be stopped, and what it brings must be closed by somebody. But only one
copy is brought at a time, so that no step is waited for beyond a limit (``bringing``): the copy
fails, and is tried again. Warming up is given up between two calls of the model.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final, Generic, assert_never

from tidegate.clock import Clock
from tidegate.errors import ModelNotFoundError, TidegateError
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.observability import get_logger
from tidegate.units import Nanoseconds, ns_to_ms, ns_to_seconds
from tidegate_realtime.core.asked import Pointed, UnloadRefusedError
from tidegate_realtime.core.hosting import Copy, State
from tidegate_realtime.core.lifecycle import Lifecycle
from tidegate_realtime.core.lifecycle_commands import Command, Fetch, Leave, Load, Show, WakeAt
from tidegate_realtime.runtime.alarm import Alarm
from tidegate_realtime.runtime.bringing import LOAD_LIMIT_NS, Bringing
from tidegate_realtime.runtime.hosting_ports import FilesT, HostedT, Shelf, VersionSource

log: Final = get_logger(__name__)
READY: Final = "ready"
"""How a load is counted that did not fail."""


class _Life(Generic[HostedT]):
    """What a copy's task waits for, and what it has brought."""

    def __init__(self, began_at_ns: Nanoseconds) -> None:
        self.began_at_ns = began_at_ns
        self.may_go_on = asyncio.Event()
        """It may be loaded, or must leave."""
        self.must_leave = asyncio.Event()
        self.patience: asyncio.Timeout | None = None
        """Ends a warm-up that nobody wants any more."""
        self.hosted: HostedT | None = None
        self.has_served = False

    def leave(self) -> None:
        """Let the task go on to its end."""
        self.may_go_on.set()
        self.must_leave.set()
        if self.patience is not None and not self.patience.expired():
            self.patience.reschedule(asyncio.get_running_loop().time())


class ModelHost(Generic[FilesT, HostedT]):
    """Holds every model version of this process; every call is made on the loop's thread."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        *,
        source: VersionSource[FilesT, HostedT],
        shelf: Shelf[HostedT],
        clock: Clock,
        tasks: asyncio.TaskGroup,
        load_limit_ns: Nanoseconds = LOAD_LIMIT_NS,
    ) -> None:
        """Put the parts together; nothing happens before ``start``.

        Args:
            lifecycle: Decides; with what is asked for at the start.
            source: Where versions come from.
            shelf: What callers see.
            clock: For pauses and durations.
            tasks: Where the copies live. Leave it only after ``aclose``.
            load_limit_ns: For loading a version, and for warming it up.
        """
        self.lifecycle = lifecycle
        self.loads: Counter[tuple[str, str]] = Counter()
        """How many ended, by model and by ``ready`` or the code of the failure."""
        self.load_seconds: dict[tuple[str, str], float] = {}
        """How long it took to bring each version that was ready, by model and version."""
        self.alias_reads: Counter[tuple[str, str]] = Counter()
        """By model, and ``read`` or ``failed``."""
        self._source = source
        self._bringing = Bringing(source, tasks, load_limit_ns=load_limit_ns)
        self._shelf = shelf
        self._clock = clock
        self._tasks = tasks
        self._lives: dict[Copy, _Life[HostedT]] = {}
        self._errors: dict[Copy, Exception] = {}
        self._asked: dict[ModelRef, asyncio.Task[Copy | Exception]] = {}
        """What operators wait for: several of them for the same end."""
        self._told: dict[ModelName, tuple[list[Version], dict[str, int]]] = {}
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_closing = False
        self._alarm = Alarm(clock, self._ring)

    @property
    def followed(self) -> list[ModelName]:
        """The models whose aliases are to be read again and again."""
        return self.lifecycle.followed

    @property
    def loading(self) -> list[str]:
        """Versions that are being fetched or loaded, wanted or not: no thread can be stopped."""
        lives = (str(copy) for copy, life in self._lives.items() if life.hosted is None)
        return list(dict.fromkeys([*lives, *self._bringing.hanging]))

    @property
    def asking(self) -> list[str]:
        """What the store is asked and has not answered, wanted or not."""
        return self._bringing.asking

    @property
    def hosted(self) -> list[str]:
        """Versions that are in memory, whatever their state."""
        return [str(copy) for copy, life in self._lives.items() if life.hosted is not None]

    async def start(self) -> None:
        """Bring everything that is asked for at the start, or fail as a whole.

        Raises:
            TidegateError: One of them cannot be served, and why. Close the host then.
        """
        refs = [ref for asked in self.lifecycle.asked.values() for ref in asked.refs]
        pointed = {ref.name: await self._resolved(ref) for ref in refs}
        for name, found in pointed.items():
            self._on_aliases(name, found)
        for ref in refs:
            await self._served(ref)

    async def load(self, ref: ModelRef) -> Copy:
        """Bring a version because somebody asks for it, and return what serves as ``ref`` then.

        One that is there already costs nothing; an alias is looked up in the store now. Cancelling
        stops the waiting, not the loading.

        Raises:
            ModelNotFoundError: The reference names nothing.
            PartUnavailableError: The store does not answer.
            TidegateError: It cannot be loaded or does not keep its promise; nothing has changed.
        """
        async with self._reading:
            pointed = await self._resolved(ref)
            if self._is_closing:
                raise UnloadRefusedError("This server is shutting down and loads nothing.")
            known = self.lifecycle.asked.get(ref.name)
            is_new = known is None or ref not in known.refs
            self._obey(self.lifecycle.on_asked(ref, pointed, self._clock.now_ns()))
            if ref not in self._asked:
                bring = self._served_or_given_up(ref, is_new=is_new)
                self._asked[ref] = self._tasks.create_task(bring, name=f"load {ref}")
        found = await asyncio.shield(self._asked[ref])
        if isinstance(found, Exception):
            raise found
        return found

    async def unload(self, name: ModelName, at: Alias | Version | None) -> list[Version]:
        """Let go of a version, of what an alias brought, or of a whole model, and wait for its end.

        What is bound to it is answered first. Cancelling stops the waiting only.

        Returns:
            The versions that are gone.

        Raises:
            ModelNotFoundError: Nothing of the kind is here.
            UnloadRefusedError: It must stay, and why.
        """
        here = [c for c in self.lifecycle.copies if c.name == name and c.state is not State.LEAVING]
        self._obey(self.lifecycle.on_released(name, at, self._clock.now_ns()))
        gone = [copy for copy in here if copy.state in {State.LEAVING, State.UNLOADED}]
        if not gone:
            what = name if at is None else ModelRef(name, at)
            raise ModelNotFoundError(f"{what} is not loaded here, and nothing was unloaded.")
        while any(copy.state is State.LEAVING for copy in gone):
            await self._changed.wait()
        return [copy.version for copy in gone]

    async def read_aliases(self, name: ModelName) -> None:
        """Look where the aliases of a model point now; everything stays if nobody can say."""
        async with self._reading:
            try:
                pointed = await self._bringing.ask(
                    f"aliases of {name}", lambda: self._source.pointed(name)
                )
            except TidegateError as error:
                self.alias_reads[name, "failed"] += 1
                if self.lifecycle.on_unreadable(name, str(error)):
                    log.warning("aliases_unreadable", model=name, code=error.code, error=str(error))
            else:
                self.alias_reads[name, "read"] += 1
                self._on_aliases(name, pointed)

    async def aclose(self) -> None:
        """Let everything go, and wait for its end; bound the waiting."""
        self._is_closing = True
        self._obey(self.lifecycle.on_stop(self._clock.now_ns()))
        while self._lives:
            await self._changed.wait()
        await self._bringing.ended()  # the interpreter would wait for their threads, too

    async def _resolved(self, ref: ModelRef) -> Pointed:
        return await self._bringing.ask(f"version of {ref}", lambda: self._source.resolve(ref))

    def _on_aliases(self, name: ModelName, pointed: Pointed) -> None:
        asked = self.lifecycle.asked.get(name)
        if asked is None:  # unloaded while they were being read
            return
        problem, missing = asked.problem, asked.missing
        self._obey(self.lifecycle.on_aliases(name, pointed, self._clock.now_ns()))
        if problem is not None:
            log.info("aliases_readable", model=name)
        for alias in asked.missing:
            if alias not in missing:
                log.warning("alias_missing", model=name, alias=alias, keeps=asked.targets[alias])

    async def _served_or_given_up(self, ref: ModelRef, *, is_new: bool) -> Copy | Exception:
        """Wait for what was asked for, and if it fails let it be as if nobody had asked.

        Once, however many wait, and also if all of them have left.
        """
        try:
            return await self._served(ref)
        except Exception as error:  # whatever it is, it is for those who wait
            if is_new:
                self._obey(self.lifecycle.on_given_up(ref, self._clock.now_ns()))
            return error
        finally:
            del self._asked[ref]

    async def _served(self, ref: ModelRef) -> Copy:
        while True:
            copy = self.lifecycle.served(ref)
            if copy is not None:
                return copy
            self._check_hope(ref)
            await self._changed.wait()

    def _check_hope(self, ref: ModelRef) -> None:
        """Say what keeps a reference from being served, unless it is only a matter of time."""
        asked = self.lifecycle.asked.get(ref.name)
        if asked is None or ref not in asked.refs:
            raise UnloadRefusedError(f"{ref} was unloaded while it was being loaded.")
        target = asked.target(ref)
        if target is None:
            raise ModelNotFoundError(f"{ref} names no version in the store.")
        copy = self.lifecycle.copy_of(ref.name, target)
        if copy is not None and copy.has_failed:
            raise self._errors[copy]

    def _obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Fetch(copy):
                    self._lives[copy] = _Life(self._clock.now_ns())
                    self._tasks.create_task(self._live(copy), name=f"host {copy}")
                case Load(copy):
                    self._lives[copy].may_go_on.set()
                case Leave(copy):
                    self._lives[copy].leave()
                case Show():
                    self._show(command)
                case WakeAt(at_ns):
                    self._alarm.set(at_ns, self._clock.now_ns())
                case _:
                    assert_never(command)
        self._changed.set()
        self._changed = asyncio.Event()

    def _show(self, show: Show) -> None:
        hosted = [self._lives[copy].hosted for copy in show.copies]
        self._shelf.show(show, [each for each in hosted if each is not None])
        aliases = {str(alias): int(version) for alias, version in show.aliases.items()}
        told = [copy.version for copy in show.copies], aliases
        if self._told.get(show.name, ([], {})) != told:
            log.info("model_shown", model=show.name, versions=told[0], aliases=aliases)
            self._told[show.name] = told

    def _ring(self, _: Nanoseconds, now_ns: Nanoseconds) -> None:
        self._obey(self.lifecycle.on_tick(now_ns))

    async def _live(self, copy: Copy) -> None:
        life, failure = self._lives[copy], None
        try:
            await self._bring(copy, life)
            await life.must_leave.wait()
        except Exception as error:  # whatever it is, it ends this copy and nobody who serves
            failure = error
        if life.hosted is not None:
            await self._bringing.close(copy, life.hosted, has_served=life.has_served)
        life.hosted = None
        del self._lives[copy]
        if copy.state is State.LEAVING:
            self._on_gone(copy)
        elif failure is not None:
            self._on_failed(copy, failure)

    async def _bring(self, copy: Copy, life: _Life[HostedT]) -> None:
        now_ns, lifecycle = self._clock.now_ns, self.lifecycle
        files = await self._bringing.fetch(copy)
        self._obey(lifecycle.on_fetched(copy, files.size_bytes, self._used_at_ns(), now_ns()))
        await life.may_go_on.wait()
        if copy.state is State.LOADING:
            life.hosted = await self._bringing.load(copy, files)
            self._obey(lifecycle.on_loaded(copy, now_ns()))
        if copy.state is State.WARMING and life.hosted is not None:
            await self._warm_up(copy, life.hosted, life)
        if copy.state is State.WARMING:  # else it is to leave by now
            life.has_served = True
            self._note_ready(copy, Nanoseconds(now_ns() - life.began_at_ns))
            self._obey(lifecycle.on_warmed(copy, now_ns()))

    async def _warm_up(self, copy: Copy, hosted: HostedT, life: _Life[HostedT]) -> None:
        try:
            async with asyncio.timeout(self._bringing.limit_s) as life.patience:
                await self._source.warm_up(hosted)
        except TimeoutError:
            if life.must_leave.is_set():
                return
            if life.patience is not None and life.patience.expired():
                raise self._bringing.too_slow(copy, "warmed up") from None
            raise
        finally:
            life.patience = None

    def _note_ready(self, copy: Copy, took_ns: Nanoseconds) -> None:
        self.loads[copy.name, READY] += 1
        self.load_seconds[copy.name, str(copy.version)] = ns_to_seconds(took_ns)
        self._errors.pop(copy, None)
        log.info("model_ready", model=str(copy), took_ms=round(ns_to_ms(took_ns)))

    def _used_at_ns(self) -> dict[Copy, Nanoseconds]:
        return {
            copy: life.hosted.used_at_ns
            for copy, life in self._lives.items()
            if life.hosted is not None and copy.state is State.READY
        }

    def _on_gone(self, copy: Copy) -> None:
        self._errors.pop(copy, None)
        self._obey(self.lifecycle.on_gone(copy, self._clock.now_ns()))
        if self.lifecycle.copy_of(copy.name, copy.version) is None:
            self.load_seconds.pop((copy.name, str(copy.version)), None)

    def _on_failed(self, copy: Copy, error: Exception) -> None:
        is_ours = isinstance(error, TidegateError)
        code = error.code if isinstance(error, TidegateError) else TidegateError.code
        message = str(error) if is_ours else f"{type(error).__name__}: {error}"
        self.loads[copy.name, code] += 1
        log.warning(
            "model_not_loaded",
            model=str(copy),
            code=code,
            error=message,
            exc_info=None if is_ours else error,
        )
        # Its frames would keep in memory what could not be served.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        commands = self.lifecycle.on_failed(copy, code, message, self._clock.now_ns())
        self._errors[copy] = error
        self._obey(commands)
        self._errors = {c: e for c, e in self._errors.items() if c in self.lifecycle.copies}
