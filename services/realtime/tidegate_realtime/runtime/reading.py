"""Turns texts and images into tensors on threads of its own, each in time or not at all.

All that is decided is decided on the loop: a job goes to the executor only when one of its threads
is free for it, so that whoever has left or is late by then is not read. No thread can be stopped,
so a job whose caller is gone is read to its end; what its body holds is counted until then.
"""

import asyncio
import math
from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from tidegate.clock import Clock
from tidegate.units import Nanoseconds, ns_to_ms, ns_to_seconds
from tidegate_realtime.core.reading import FOREVER, ReadingQueue, Refusal, Unread
from tidegate_realtime.runtime.outcomes import RETRY_AFTER_MS, Cancelled, Expired, Rejected

T = TypeVar("T")
NotRead: TypeAlias = Rejected | Expired | Cancelled
Release: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The threads that read."""

    executor: Executor
    """Nobody else's: given no more jobs than it has threads, it never keeps one waiting."""
    threads: int

    @classmethod
    def of_threads(cls, threads: int) -> Self:
        """Prepare so many; none is started before there is something to read."""
        executor = ThreadPoolExecutor(threads, thread_name_prefix="reading")
        return cls(executor=executor, threads=threads)


class Read(Generic[T]):
    """Stands for one job until it ends; ``await`` it, in one place."""

    __slots__ = ("_reading", "decode", "future", "hold", "name", "release", "timer", "unread")

    def __init__(
        self,
        reading: "Reading",
        decode: Callable[[], T],
        *,
        unread: Unread,
        name: str,
        hold: Callable[[], Release],
    ) -> None:
        """Only ``Reading`` makes them."""
        self._reading = reading
        self.decode = decode
        self.unread = unread
        self.name = name
        self.hold = hold
        self.release: Release | None = None
        """To be called by whoever learns that its thread is done with what nobody waits for."""
        self.future: asyncio.Future[T | NotRead] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Note that the caller left: what waits is not read; without effect once it has ended."""
        self._reading.end(self, Cancelled())

    def __await__(self) -> Generator[object, None, T | NotRead]:
        """Wait for the tensors, or for what became of the job instead.

        Raises what ``decode`` raises. Cancelling the await counts as the caller leaving.
        """
        try:
            return (yield from self.future.__await__())
        except asyncio.CancelledError:
            self._reading.end(self, Cancelled())
            raise


class Reading:
    """Reads what is slow to read; every call is made on the event loop's thread."""

    def __init__(
        self,
        readers: Readers,
        *,
        clock: Clock,
        on_read: Callable[[Unread, Nanoseconds], None] = lambda unread, took_ns: None,
    ) -> None:
        """Take over idle threads; ``aclose`` ends them.

        Args:
            readers: Its threads.
            clock: The one that deadlines are read from.
            on_read: Told of each job that a thread has done, and how long that took.
        """
        self._executor: Final = readers.executor
        self._queue = ReadingQueue(threads=readers.threads)
        self._clock = clock
        self._on_read = on_read
        self._open: dict[Unread, Read[Any]] = {}  # a caller waits for each
        self._running: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return self._queue.waiting

    def submit(
        self, decode: Callable[[], T], unread: Unread, *, name: str, hold: Callable[[], Release]
    ) -> Read[T]:
        """Take a job; never blocks, and refuses by an outcome.

        Args:
            decode: Called once on a thread, or never.
            unread: What is known of it.
            name: Of the model, for whoever is refused.
            hold: Called if the caller is told how it ended while a thread still reads: keeps
                counting what the job holds until what it returns is called.
        """
        read = Read(self, decode, unread=unread, name=name, hold=hold)
        if self._closed:
            read.future.set_result(_draining())
            return read
        now_ns = self._clock.now_ns()
        refusal = self._queue.on_arrival(unread, now_ns)
        if refusal is not None:
            read.future.set_result(_rejected(read, refusal))
            return read
        self._open[unread] = read
        if unread.deadline_at_ns < FOREVER:
            left_s = ns_to_seconds(Nanoseconds(unread.deadline_at_ns - now_ns))
            loop = asyncio.get_running_loop()
            read.timer = loop.call_later(left_s, self._expire, read)
        self._go_on(now_ns)
        return read

    def end(self, read: Read[T], outcome: T | NotRead | BaseException) -> None:
        """Tell the caller how it ended; without effect if he knows."""
        if self._open.pop(read.unread, None) is None:
            return
        if read.timer is not None:
            read.timer.cancel()
        self._queue.on_departure(read.unread)
        if self._queue.is_reading(read.unread):
            read.release = read.hold()
        if read.future.done():
            return
        if isinstance(outcome, BaseException):
            read.future.set_exception(outcome)
        else:
            read.future.set_result(outcome)

    async def aclose(self) -> None:
        """End the waiting of everybody, and wait for what threads have begun.

        Cancelling leaves a thread to its job. Closing twice is closing once.
        """
        self._closed = True
        for read in list(self._open.values()):
            if not self._queue.is_reading(read.unread):
                self.end(read, _draining())
        try:
            if self._running:
                await asyncio.wait(list(self._running))
        finally:
            self._executor.shutdown(wait=False)

    def _go_on(self, now_ns: Nanoseconds) -> None:
        while (due := self._queue.take(now_ns)) is not None:
            read = self._open[due.unread]
            if due.refusal is None:
                self._begin(read)
            elif now_ns >= due.unread.deadline_at_ns:
                self.end(read, _expired(read))
            else:
                self.end(read, _rejected(read, due.refusal))

    def _begin(self, read: Read[Any]) -> None:
        running = asyncio.wrap_future(self._executor.submit(read.decode))
        self._running.add(running)
        running.add_done_callback(lambda done: self._done(read, done))

    def _done(self, read: Read[Any], done: asyncio.Future[Any]) -> None:
        self._running.discard(done)
        now_ns = self._clock.now_ns()
        self._on_read(read.unread, self._queue.on_read(read.unread, now_ns))
        error = done.exception()
        self.end(read, done.result() if error is None else error)
        if read.release is not None:
            read.release()
        self._go_on(now_ns)

    def _expire(self, read: Read[Any]) -> None:
        self.end(read, _expired(read))


def _draining() -> Rejected:
    return Rejected(
        code="draining",
        message="This server is shutting down; send the request to another one.",
        retry_after_ms=RETRY_AFTER_MS,
    )


def _expired(read: Read[Any]) -> Expired:
    unread = read.unread
    limit_ns = Nanoseconds(unread.deadline_at_ns - unread.arrived_at_ns)
    return Expired(queued_ns=limit_ns, executed_ns=Nanoseconds(0), limit_ns=limit_ns, is_read=False)


def _rejected(read: Read[Any], refusal: Refusal) -> Rejected:
    if refusal.code == "queue_full":
        return Rejected(
            code=refusal.code,
            message=f"{refusal.ahead} requests wait for their texts or images to be decoded, and "
            "no more may; try again later.",
            retry_after_ms=RETRY_AFTER_MS,
        )
    unread = read.unread
    predicted_ms = ns_to_ms(Nanoseconds(refusal.predicted_ns))
    slo_ms = ns_to_ms(Nanoseconds(unread.deadline_at_ns - unread.arrived_at_ns))
    retry_after_ms = max(1, math.ceil(predicted_ms - slo_ms))
    return Rejected(
        code=refusal.code,
        message=f"{read.name} needs about {predicted_ms:.1f} ms, most of it to decode texts or "
        f"images ({refusal.ahead} requests are ahead), but the request allows {slo_ms:.1f} ms.",
        retry_after_ms=retry_after_ms,
        predicted_ms=predicted_ms,
        slo_ms=slo_ms,
    )
