"""The slow steps by which versions come and fail, none of which keeps others waiting for ever.

They run in threads, which nobody can stop. A step that is given up goes on, and is left behind
here: a fetch is waited for again by the next try, for its files are as good then. What a load
still brings is closed, and the next try comes after that, so that a version that hangs costs one
thread however often it is tried. So does a question to the store that it never answers; what it
says to one that was given up is old by then, and is not listened to.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from tidegate.errors import BackendError, PartUnavailableError
from tidegate.observability import get_logger
from tidegate.units import NS_PER_SECOND, Nanoseconds, ns_to_seconds
from tidegate_realtime.core.asked import Pointed
from tidegate_realtime.core.hosting import Copy
from tidegate_realtime.runtime.hosting_ports import FilesT, HostedT, VersionSource

log: Final = get_logger(__name__)
FETCH_LIMIT_S: Final = 600.0
"""10 GB in this time are 17 MB/s. Whatever takes longer would keep every other version waiting."""
LOAD_LIMIT_NS: Final = Nanoseconds(600 * NS_PER_SECOND)
"""As long; the largest models that fit into a machine are read and compiled in minutes."""
ASK_LIMIT_S: Final = 30.0
"""To read where the aliases point: one small object. S3 itself is asked again within this time."""
CLOSE_LIMIT_S: Final = 5.0
"""Nobody is bound to what never served: only a call that hangs keeps it from being closed."""
_T = TypeVar("_T")


class Bringing(Generic[FilesT, HostedT]):
    """The steps of one host; every call is made on the loop's thread."""

    def __init__(
        self,
        source: VersionSource[FilesT, HostedT],
        tasks: asyncio.TaskGroup,
        *,
        load_limit_ns: Nanoseconds,
    ) -> None:
        self._source = source
        self._tasks = tasks
        self.limit_s = ns_to_seconds(load_limit_ns)
        """For a load, and for the warm-up after it."""
        self._fetches: dict[str, asyncio.Task[FilesT | Exception]] = {}
        """Those that have not ended, by ``name@version``; also of copies that have failed."""
        self._left: dict[str, asyncio.Task[None]] = {}
        """What copies that have failed still hang in."""
        self._questions: dict[str, asyncio.Task[Pointed | Exception]] = {}
        """Those to the store that have no answer yet, by what is asked."""

    @property
    def hanging(self) -> list[str]:
        """Versions for which something goes on in a thread: fetches, steps of copies that ended."""
        return [*self._fetches, *self._left]

    @property
    def asking(self) -> list[str]:
        """Questions that the store has not answered."""
        return list(self._questions)

    async def ask(self, what: str, question: Callable[[], Coroutine[Any, Any, Pointed]]) -> Pointed:
        """Ask the store where aliases point now, once it has answered what was asked before.

        Raises:
            PartUnavailableError: It does not answer.
        """
        try:
            async with asyncio.timeout(ASK_LIMIT_S):
                while (given_up := self._questions.get(what)) is not None:
                    await asyncio.wait({given_up})
                asking = self._tasks.create_task(_caught(question()), name=what)
                self._questions[what] = asking
                asking.add_done_callback(lambda _: self._questions.pop(what))
                await asyncio.wait({asking})
        except TimeoutError:
            raise PartUnavailableError(
                f"The store has not answered within {ASK_LIMIT_S:.0f} s ({what}); look at it and "
                "at the network. What is loaded goes on answering."
            ) from None
        return _or_raise(asking.result())

    async def fetch(self, copy: Copy) -> FilesT:
        """Bring the files here.

        Raises:
            PartUnavailableError: They have not come in time.
            BackendError: A former try of this version still hangs.
        """
        if str(copy) in self._left:
            raise BackendError(
                f"The last try of {copy} hangs to this moment, and nothing is tried before it "
                "ends. If that lasts, restart this server, or publish another version."
            )
        fetch = self._fetches.get(str(copy))
        if fetch is None:
            fetch = self._tasks.create_task(self._fetch(copy), name=f"fetch {copy}")
            self._fetches[str(copy)] = fetch
        await asyncio.wait({fetch}, timeout=FETCH_LIMIT_S)
        if not fetch.done():
            raise PartUnavailableError(
                f"The files of {copy} have not come within {FETCH_LIMIT_S:.0f} s; look at the "
                "store and the network. The fetch goes on, and is waited for at the next try."
            )
        return _or_raise(fetch.result())

    async def load(self, copy: Copy, files: FilesT) -> HostedT:
        """Bring a version into memory.

        Raises:
            BackendError: It takes too long.
        """
        load = self._tasks.create_task(_caught(self._source.load(files)), name=f"load {copy}")
        await asyncio.wait({load}, timeout=self.limit_s)
        if not load.done():
            late = self._close_late(copy, load)
            self._leave(copy, self._tasks.create_task(late, name=f"close {copy} late"))
            raise self.too_slow(copy, "loaded")
        return _or_raise(load.result())

    async def close(self, copy: Copy, hosted: HostedT, *, has_served: bool) -> None:
        """Release a version: what is bound to it ends first.

        One that never served is left behind if a call of it hangs.
        """
        closing = self._tasks.create_task(self._close(copy, hosted), name=f"close {copy}")
        await asyncio.wait({closing}, timeout=None if has_served else CLOSE_LIMIT_S)
        if not closing.done():
            self._leave(copy, closing)

    async def ended(self) -> None:
        """Wait until nothing hangs any more; bound the waiting."""
        while self.hanging or self.asking:
            steps = (self._fetches, self._left, self._questions)
            await asyncio.wait([task for each in steps for task in each.values()])

    def too_slow(self, copy: Copy, what: str) -> BackendError:
        """Describe a version that was given up."""
        return BackendError(
            f"{copy} has not been {what} within {self.limit_s:g} s. Raise serve.load_limit_ms if "
            "it is that large; else look at its files, and at memory and load of this machine."
        )

    def _leave(self, copy: Copy, ending: asyncio.Task[None]) -> None:
        log.error("model_left_hanging", model=str(copy))
        self._left[str(copy)] = ending
        ending.add_done_callback(lambda _: self._left.pop(str(copy)))

    async def _fetch(self, copy: Copy) -> FilesT | Exception:
        try:
            return await _caught(self._source.fetch(copy.name, copy.version))
        finally:
            del self._fetches[str(copy)]

    async def _close_late(self, copy: Copy, load: asyncio.Task[HostedT | Exception]) -> None:
        found = await load
        if not isinstance(found, Exception):
            await self._close(copy, found)

    async def _close(self, copy: Copy, hosted: HostedT) -> None:
        try:
            await self._source.close(hosted)
        except Exception as error:  # a bug, which must not take the other models down
            _report_bug(copy, error)


def _report_bug(copy: Copy, error: Exception) -> None:
    log.error("model_not_closed", model=str(copy), exc_info=error)


async def _caught(step: Coroutine[Any, Any, _T]) -> _T | Exception:
    try:
        return await step
    except Exception as error:  # whatever it is, it is for the copy that waits
        return error


def _or_raise(found: _T | Exception) -> _T:
    if isinstance(found, Exception):
        raise found
    return found
