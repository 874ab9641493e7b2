"""An object store that waits out what passes: throttling, overload, replies that never came.

An adapter repeats a request for as long as one request is worth. A job has longer: hours, and a
store that is restarted or throttles for minutes must not end it.
"""

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeVar, cast

from tidegate.clock import Clock
from tidegate.objects.port import (
    ObjectHead,
    ObjectStore,
    Refused,
    StoreBusyError,
    StoredObject,
    StoreOverloadedError,
    Wanted,
    Written,
    check_prefix,
    everything,
)
from tidegate.units import NS_PER_MS, NS_PER_SECOND, ns_to_seconds

_Answer = TypeVar("_Answer")

_FIRST_PAUSE_NS: Final = 100 * NS_PER_MS
"""The adapter has been patient already; this is for what lasts longer."""
_LONGEST_PAUSE_NS: Final = 10 * NS_PER_SECOND
"""A store that is back is noticed this much later at most."""


class Dice(Protocol):
    """A source of random numbers."""

    def random(self) -> float:
        """Return a number from 0 up to but not including 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, and with what."""

    limit_ns: int
    """For each call, from its first failure."""
    clock: Clock
    pause: Callable[[int], None]
    """Blocks for so many nanoseconds."""
    dice: Dice
    """Parts those who were all refused at once."""
    turn_ns: int = NS_PER_SECOND
    """How long a repeated call lets others go first: behind slow ones a lease would expire."""


class PatientObjectStore:
    """Repeats calls to another store that fail with ``StoreBusyError``.

    Pauses double from 0.1 s to 10 s, and each is a random part of that ("full jitter"). Of the
    calls that are repeated only one is made at a time, unless it is slow, so that a store that
    throttles sees fewer requests, not more. A store that has never answered is not waited for: a
    wrong address, say, should not take long to be noticed.

    Reading from an open object counts as a call, and a read that failed is repeated from where it
    began. A local object is left as it is: reading from a disk is never busy.

    A write may land although its reply is lost, and is then refused when it is repeated: the
    port says how its callers find out.
    """

    def __init__(
        self, inner: ObjectStore, patience: Patience, *, has_answered: bool = False
    ) -> None:
        self._inner = inner
        self._patience = patience
        self.has_answered = has_answered
        """At least once, be it to somebody else."""
        self._one_repeat = threading.Lock()

    @property
    def url(self) -> str:
        """The other's."""
        return self._inner.url

    def head(self, key: str) -> ObjectHead | None:
        """As the port says."""
        return self._ask(lambda: self._inner.head(key))

    def get(self, key: str) -> StoredObject | None:
        """As the port says."""
        return self._ask(lambda: self._inner.get(key))

    def open(self, key: str, *, etag: str) -> BinaryIO:
        """As the port says."""
        file = self._ask(lambda: self._inner.open(key, etag=etag))
        if self._inner.local_path(key) is not None:
            return file
        return cast("BinaryIO", _PatientFile(file, self._ask))

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        """As the port says."""
        return self._ask(lambda: self._inner.put_if_absent(key, body))

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        """As the port says."""
        return self._ask(lambda: self._inner.replace(key, body, etag=etag))

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        """As the port says."""
        return self._ask(lambda: self._inner.copy(source, target, etag=etag))

    def delete(self, key: str) -> None:
        """As the port says."""
        self._ask(lambda: self._inner.delete(key))

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        """As the port says; a listing that is cut short goes on behind the last key it told."""
        return self._listed(check_prefix(prefix), wanted)

    def folders(self, prefix: str) -> Iterator[str]:
        """As the port says; all of them are asked for at once."""
        return iter(self._ask(lambda: list(self._inner.folders(prefix))))

    def local_path(self, key: str) -> Path | None:
        """As the port says."""
        return self._inner.local_path(key)

    def _listed(self, prefix: str, wanted: Wanted) -> Iterator[str]:
        last: str | None = None
        try:
            for key in self._inner.keys(prefix, wanted):
                self.has_answered = True
                last = key
                yield key
        except StoreBusyError as error:
            if not self._is_there(error):
                raise
            whole = self._ask_again(lambda: list(self._inner.keys(prefix, wanted)), error)
        else:
            self.has_answered = True
            return
        yield from (key for key in whole if last is None or key.encode() > last.encode())

    def _is_there(self, error: StoreBusyError) -> bool:
        return self.has_answered or isinstance(error, StoreOverloadedError)

    def _ask(self, call: Callable[[], _Answer]) -> _Answer:
        try:
            answer = call()
        except StoreBusyError as error:
            if not self._is_there(error):
                raise
            return self._ask_again(call, error)
        self.has_answered = True
        return answer

    def _ask_again(self, call: Callable[[], _Answer], error: StoreBusyError) -> _Answer:
        patience = self._patience
        give_up_at_ns = patience.clock.now_ns() + patience.limit_ns
        pause_ns = _FIRST_PAUSE_NS
        while patience.clock.now_ns() < give_up_at_ns:
            patience.pause(int(patience.dice.random() * pause_ns))
            pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)
            has_turn = self._one_repeat.acquire(timeout=ns_to_seconds(patience.turn_ns))
            try:
                return call()
            except StoreBusyError as again:
                error = again
            finally:
                if has_turn:
                    self._one_repeat.release()
        raise error


class _PatientFile(io.BufferedIOBase):
    """An open object whose reads are repeated; it is pinned, so that they give the same bytes."""

    def __init__(self, file: BinaryIO, ask: Callable[[Callable[[], bytes]], bytes]) -> None:
        self._file = file
        self._ask = ask

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        return self._from_here(lambda: self._file.read(-1 if size is None else size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._from_here(lambda: self._file.readline(-1 if size is None else size))

    def close(self) -> None:
        self._file.close()
        super().close()

    def _from_here(self, read: Callable[[], bytes]) -> bytes:
        """Read; a try that fails may have moved the file and emptied its buffer."""
        begin = self._file.tell()

        def from_begin() -> bytes:
            self._file.seek(begin)
            return read()

        return self._ask(from_begin)
