"""An object store that fails on purpose, at one chosen call, and behaves well at all others.

How a protocol is shown to survive a crash before and after every step::

    steps = FaultyObjectStore(store)
    publish(steps)  # once undisturbed, to count
    for faults in every_crash(len(steps.calls)):
        with pytest.raises(Killed):
            publish(FaultyObjectStore(new_store(), faults))
        ...  # start again on the store underneath, and look
"""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeVar

from tidegate.objects.port import (
    ObjectHead,
    ObjectStore,
    Refused,
    StoredObject,
    StoreUnavailableError,
    Wanted,
    Written,
    everything,
)

_Answer = TypeVar("_Answer")


class Killed(BaseException):
    """The process is dead. What it tries to clean up afterwards raises this again."""


@dataclass(frozen=True, slots=True)
class DiesBefore:
    """The process dies, and the call never reached the store."""


@dataclass(frozen=True, slots=True)
class DiesAfter:
    """The call had its effect; then the process dies."""


@dataclass(frozen=True, slots=True)
class LosesReply:
    """The call had its effect, but the caller is told of a timeout."""


@dataclass(frozen=True, slots=True)
class Fails:
    """The call has no effect and raises this."""

    error: Exception = field(default_factory=lambda: StoreUnavailableError("failed on purpose"))


Fault = DiesBefore | DiesAfter | LosesReply | Fails


def every_crash(calls: int) -> Iterator[Mapping[int, Fault]]:
    """Yield one script per way to die in a run of that many calls."""
    for number in range(calls):
        yield {number: DiesBefore()}
        yield {number: DiesAfter()}


class FaultyObjectStore:
    """Passes calls on to another store and spoils those that its script names.

    Args:
        inner: The store that does the work, and shows afterwards what has landed.
        faults: By the number of the call, from 0. ``keys`` is one call, made whole at once.
    """

    def __init__(self, inner: ObjectStore, faults: Mapping[int, Fault] | None = None) -> None:
        self._inner = inner
        self._faults = faults or {}
        self._is_dead = False
        self.calls: list[str] = []
        """Each call so far, as ``"put_if_absent a/b"``; of a copy the target is named."""

    @property
    def url(self) -> str:
        return self._inner.url

    def head(self, key: str) -> ObjectHead | None:
        return self._serve(f"head {key}", lambda: self._inner.head(key))

    def get(self, key: str) -> StoredObject | None:
        return self._serve(f"get {key}", lambda: self._inner.get(key))

    def open(self, key: str, *, etag: str) -> BinaryIO:
        return self._serve(f"open {key}", lambda: self._inner.open(key, etag=etag))

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        return self._serve(f"put_if_absent {key}", lambda: self._inner.put_if_absent(key, body))

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        return self._serve(f"replace {key}", lambda: self._inner.replace(key, body, etag=etag))

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        return self._serve(f"copy {target}", lambda: self._inner.copy(source, target, etag=etag))

    def delete(self, key: str) -> None:
        return self._serve(f"delete {key}", lambda: self._inner.delete(key))

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        return iter(self._serve(f"keys {prefix}", lambda: list(self._inner.keys(prefix, wanted))))

    def folders(self, prefix: str) -> Iterator[str]:
        return iter(self._serve(f"folders {prefix}", lambda: list(self._inner.folders(prefix))))

    def local_path(self, key: str) -> Path | None:
        return self._inner.local_path(key)

    def _serve(self, call: str, act: Callable[[], _Answer]) -> _Answer:
        if self._is_dead:
            raise Killed(f"{call}, although the process is dead")
        fault = self._faults.get(len(self.calls))
        self.calls.append(call)
        if isinstance(fault, DiesBefore):
            self._die(f"before {call}")
        if isinstance(fault, Fails):
            raise fault.error
        answer = act()
        if fault is None:
            return answer
        if isinstance(answer, io.IOBase):
            answer.close()
        if isinstance(fault, DiesAfter):
            self._die(f"after {call}")
        raise StoreUnavailableError(f"{call}: no reply in time (on purpose)")

    def _die(self, when: str) -> NoReturn:
        self._is_dead = True
        raise Killed(when)
