"""An object store that waits out what passes: throttling, overload, replies that never came.

An adapter repeats a request for as long as one request is worth. A job has longer: hours, and a
store that is restarted or throttles for minutes must not end it.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeVar

from tidegate.clock import Clock
from tidegate.objects.port import (
    ObjectHead,
    ObjectStore,
    Refused,
    StoreBusyError,
    StoredObject,
    Wanted,
    Written,
    everything,
)
from tidegate.units import NS_PER_MS, NS_PER_SECOND

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


class PatientObjectStore:
    """Repeats calls to another store that fail with ``StoreBusyError``.

    Pauses double from 0.1 s to 10 s, and each is a random part of that ("full jitter"). Of the
    calls that are repeated only one is made at a time, so that a store that throttles sees fewer
    requests, not more. A store that has never answered is not waited for: a wrong address, say,
    should not take long to be noticed.

    A write may land although its reply is lost, and is then refused when it is repeated: the
    port says how its callers find out.
    """

    def __init__(self, inner: ObjectStore, patience: Patience) -> None:
        self._inner = inner
        self._patience = patience
        self.has_answered = False
        """At least once."""
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
        """As the port says; reading from it is no call to the store, and is not repeated."""
        return self._ask(lambda: self._inner.open(key, etag=etag))

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
        return self._listed(prefix, wanted, self._ask(lambda: self._inner.keys(prefix, wanted)))

    def local_path(self, key: str) -> Path | None:
        """As the port says."""
        return self._inner.local_path(key)

    def _listed(self, prefix: str, wanted: Wanted, listing: Iterator[str]) -> Iterator[str]:
        last: str | None = None
        while True:
            try:
                for key in listing:
                    if last is None or key.encode() > last.encode():
                        last = key
                        yield key
            except StoreBusyError:
                listing = iter(self._ask(lambda: list(self._inner.keys(prefix, wanted))))
            else:
                return

    def _ask(self, call: Callable[[], _Answer]) -> _Answer:
        try:
            answer = call()
        except StoreBusyError:
            if not self.has_answered:
                raise
            return self._ask_again(call)
        self.has_answered = True
        return answer

    def _ask_again(self, call: Callable[[], _Answer]) -> _Answer:
        patience = self._patience
        give_up_at_ns = patience.clock.now_ns() + patience.limit_ns
        pause_ns = _FIRST_PAUSE_NS
        while True:
            patience.pause(int(patience.dice.random() * pause_ns))
            pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)
            try:
                with self._one_repeat:
                    return call()
            except StoreBusyError:
                if patience.clock.now_ns() >= give_up_at_ns:
                    raise
