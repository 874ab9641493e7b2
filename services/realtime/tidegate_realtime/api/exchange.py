"""One HTTP request and the connection it came by, the same under every server."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.api.bodies import HeldBodies
from tidegate_realtime.api.errors import UploadTooSlowError
from tidegate_realtime.api.inflating import inflate

_SHORT_BODY_BYTES: Final = 64 << 10
"""What either server buffers of a body that nobody reads."""


class Exchange:
    """What the endpoint sees of a server; an adapter subclasses it.

    Slots, because one is made for every request.
    """

    __slots__ = (
        "_on_departure",
        "_overdue",
        "_reader",
        "began_at_ns",
        "bodies",
        "came_bytes",
        "departed",
        "encoding",
        "held_bytes",
        "is_read",
        "length_bytes",
        "loop",
        "method",
        "path",
    )

    def __init__(self, method: str, path: str, *, began_at_ns: Nanoseconds) -> None:
        self.method = method
        self.path = path
        """Raw: as it came over the wire, without the query."""
        self.began_at_ns = began_at_ns
        """When the headers had been read."""
        self.departed = False
        """The caller is known to have left."""
        self.length_bytes: int | None = None
        """Of the body as its headers announce it; ``None``: unknown, it comes in chunks."""
        self.encoding: str | None = None
        """What the body is compressed with."""
        self.came_bytes = 0
        """The most of the body that can have come."""
        self.bodies: HeldBodies | None = None
        """Counts what all requests hold."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """Where it is answered, if that is known; to look for it costs a call of the kernel."""
        self.held_bytes = 0
        """What is counted there for this one."""
        self.is_read = False
        """Its whole body has come."""
        self._on_departure: Callable[[], None] | None = None
        self._reader: asyncio.Task[object] | None = None
        self._overdue = False

    def header(self, name: str, /) -> str | None:
        """Return a header by its lower-case name."""
        raise NotImplementedError

    def header_values(self, name: str, /) -> Sequence[str]:
        """Return every value of a header by its lower-case name, one for each time it came."""
        raise NotImplementedError

    def times(self, name: str) -> int:
        """Return how often a header came."""
        return len(self.header_values(name))

    async def _receive(self, limit_bytes: int) -> bytes:
        """Return the whole body as it comes, and tell ``_take`` of it.

        Raises:
            BodyTooLargeError: It is longer than the limit; the rest was not read.
            TruncatedBodyError, CallerLeftError: It ended early.
        """
        raise NotImplementedError

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body, and undo its compression; to be called once.

        Raises:
            BodyTooLargeError: It is longer than the limit, or becomes so.
            BodiesHeldError: All requests together hold too much.
            MalformedRequestError: It is not compressed as its header says.
            TruncatedBodyError, CallerLeftError: It ended early.
            UploadTooSlowError: ``cut_upload`` was called meanwhile.
        """
        self._begin_reading()
        try:
            body = await self._receive(limit_bytes)
            self.is_read = True
        finally:
            self._end_reading()
        if self.encoding is not None:
            return await inflate(body, self.encoding, limit_bytes=limit_bytes, hold=self._take)
        return body

    def _take(self, number_of_bytes: int) -> None:
        """Note that so much of the body has come, or may come in one piece.

        Raises:
            BodiesHeldError: All requests together hold too much.
        """
        if self.bodies is not None:
            self.bodies.take(number_of_bytes)
            self.held_bytes += number_of_bytes
        self.came_bytes += number_of_bytes

    def hand_over(self) -> Callable[[], None]:
        """Leave it to the caller to give back what is counted for the body, by what is returned."""
        bodies, held_bytes = self.bodies, self.held_bytes
        self.held_bytes = 0
        return lambda: None if bodies is None else bodies.give_back(held_bytes)

    def watch(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to learn whether the caller leaves; called once, and only for a slow request."""
        raise NotImplementedError

    def unwatch(self) -> None:
        """Stop that; called once, if ``watch`` was."""
        raise NotImplementedError

    def on_departure(self, call: Callable[[], None]) -> None:
        """Say what to do if the caller leaves, or has left already."""
        self._on_departure = call
        if self.departed:
            call()

    def depart(self) -> None:
        """Note that the caller left."""
        self.departed = True
        if self._on_departure is not None:
            self._on_departure()

    @property
    def must_close(self) -> bool:
        """Whether the connection cannot go on after the reply, because more of the body may come.

        Servers read a short rest to its end, and would read a long one too (uvicorn drops 64 MiB).
        """
        if self.is_read:
            return False
        if self._overdue or self.header("transfer-encoding") is not None:
            return True
        length = self.header("content-length") or "0"
        return not length.isdecimal() or int(length) > _SHORT_BODY_BYTES

    @property
    def _is_untouched(self) -> bool:
        """Whether a body was announced of which nothing was asked for."""
        return not self.came_bytes and self.header("content-length") not in (None, "0")

    @property
    def is_uploading(self) -> bool:
        """Whether the body is being waited for."""
        return self._reader is not None

    def cut_upload(self) -> None:
        """End the waiting for the body; without effect when it is whole."""
        if self._reader is not None and not self._overdue:
            self._overdue = True
            self._reader.cancel()

    def _begin_reading(self) -> None:
        """Let ``cut_upload`` end the waiting, as ``asyncio.timeout`` would.

        A timer for every body costs a fifth of the throughput; this is one comparison for each
        *slow* one.
        """
        self._reader = asyncio.current_task(self.loop)

    def _end_reading(self) -> None:
        """Be sure that nobody cuts what comes after the body.

        Raises:
            UploadTooSlowError: The waiting was cut; to be called where that was caught.
        """
        reader, self._reader = self._reader, None
        if self._overdue and not self.is_read and reader is not None and reader.uncancel() == 0:
            raise UploadTooSlowError(
                "The request's body did not arrive in time; send it faster (16 KiB/s after the "
                "first 5 s, all of it within 60 s), or less of it."
            ) from None
