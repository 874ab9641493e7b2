"""An object store that fails as real ones do, by the roll of a seeded die: for rehearsals.

It wraps any other, a folder or S3, and goes wrong in the ways that are known from the field:
throttling (also dressed as a denial), connections that are reset, writes that land although their
reply is lost, conflicts in which nothing landed, and listings that miss what is new.
"""

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from tidegate.objects.port import (
    ObjectHead,
    ObjectStore,
    Refused,
    StoreBusyError,
    StoredObject,
    StoreOverloadedError,
    Wanted,
    Written,
    everything,
)

_Answer = TypeVar("_Answer")

_THROTTLED: Final = (
    "503 SlowDown: reduce your request rate",
    "503 AccessDenied, which is throttling all the same",
    "connection reset by peer",
)
_NEW_KEYS: Final = 16
"""How many of the newest objects a stale listing may miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultShares:
    """How often each kind of fault happens, each a share of the calls it can happen to, 0 to 1."""

    refused: float = 0.0
    """Throttled, or the connection is reset: nothing happened."""
    lost_reply: float = 0.0
    """A write lands, and the caller is told that no reply came."""
    repeated_below: float = 0.0
    """A conditional write lands, its reply is lost, and the adapter's own repetition is refused."""
    conflict: float = 0.0
    """A conditional write meets another (409): nothing landed, and neither may the other."""
    stale_list: float = 0.0
    """A listing misses one of the newest objects."""

    @classmethod
    def of_share(cls, share: float) -> "FaultShares":
        """Let every kind of fault happen equally often."""
        return cls(
            refused=share,
            lost_reply=share,
            repeated_below=share,
            conflict=share,
            stale_list=share,
        )


class RehearsingStore:
    """Passes calls on to another store, and spoils some; safe from several threads.

    Args:
        inner: Does the work.
        shares: What goes wrong, and how often.
        seed: The same calls in the same order meet the same faults.
    """

    def __init__(self, inner: ObjectStore, shares: FaultShares, *, seed: int) -> None:
        self._inner = inner
        self._shares = shares
        self._dice = random.Random(seed)
        self._one_roll = threading.Lock()
        self._newest: list[str] = []
        self.faults = 0
        """How many calls were spoilt so far."""

    @property
    def url(self) -> str:
        """The other's."""
        return self._inner.url

    def head(self, key: str) -> ObjectHead | None:
        """Ask, unless throttled."""
        return self._read(f"head {key}", lambda: self._inner.head(key))

    def get(self, key: str) -> StoredObject | None:
        """Ask, unless throttled."""
        return self._read(f"get {key}", lambda: self._inner.get(key))

    def open(self, key: str, *, etag: str) -> BinaryIO:
        """Open, unless throttled; what is open stays sound."""
        return self._read(f"open {key}", lambda: self._inner.open(key, etag=etag))

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        """Write, and perhaps lose the reply, or be in conflict."""
        written = self._write_if(f"put {key}", lambda: self._inner.put_if_absent(key, body))
        if isinstance(written, Written):
            with self._one_roll:
                self._newest = [key, *self._newest][:_NEW_KEYS]
        return written

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        """Swap, and perhaps lose the reply, or be in conflict."""
        return self._write_if(f"replace {key}", lambda: self._inner.replace(key, body, etag=etag))

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        """Copy, and perhaps lose the reply."""
        return self._write(f"copy {target}", lambda: self._inner.copy(source, target, etag=etag))

    def delete(self, key: str) -> None:
        """Delete, and perhaps lose the reply."""
        self._write(f"delete {key}", lambda: self._inner.delete(key))

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        """List, and perhaps miss one of the newest objects."""
        missed = self._newest_of(prefix) if self._falls(self._shares.stale_list) else None
        keys = self._read(f"list {prefix}", lambda: self._inner.keys(prefix, wanted))
        return (key for key in keys if key != missed)

    def folders(self, prefix: str) -> Iterator[str]:
        """Ask, unless throttled."""
        return self._read(f"folders {prefix}", lambda: self._inner.folders(prefix))

    def local_path(self, key: str) -> Path | None:
        """Say where the other has it."""
        return self._inner.local_path(key)

    def _read(self, call: str, act: Callable[[], _Answer]) -> _Answer:
        if self._falls(self._shares.refused):
            with self._one_roll:
                raise StoreOverloadedError(f"{call}: {self._dice.choice(_THROTTLED)} (rehearsed)")
        return act()

    def _write(self, call: str, act: Callable[[], _Answer]) -> _Answer:
        answer = self._read(call, act)
        if self._falls(self._shares.lost_reply):
            raise StoreBusyError(f"{call}: no reply in time (rehearsed)")
        return answer

    def _write_if(self, call: str, act: Callable[[], Written | Refused]) -> Written | Refused:
        if self._falls(self._shares.conflict):
            raise StoreOverloadedError(f"{call}: 409 ConditionalRequestConflict (rehearsed)")
        answer = self._write(call, act)
        return Refused() if self._falls(self._shares.repeated_below) else answer

    def _falls(self, share: float) -> bool:
        with self._one_roll:
            falls = self._dice.random() < share
            self.faults += falls
            return falls

    def _newest_of(self, prefix: str) -> str | None:
        with self._one_roll:
            keys = [key for key in self._newest if key.startswith(prefix)]
            return self._dice.choice(keys) if keys else None
