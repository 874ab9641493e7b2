"""All stores of one process behind one script of faults, so that the process dies as a whole."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.fakes.objects import Fault, FaultyObjectStore, Killed
from tidegate.objects.port import ObjectStore, Refused, StoreUnavailableError, Written

_Answer = TypeVar("_Answer")


class FaultyStores:
    """Opens stores whose calls are counted together.

    Args:
        opened: Opens the real ones.
        faults: By the number of the call to any store, from 0.
    """

    def __init__(
        self, opened: Callable[[str], ObjectStore], faults: Mapping[int, Fault] | None = None
    ) -> None:
        self._opened = opened
        self._faults = faults or {}
        self._stores: dict[str, ObjectStore] = {}
        self.calls: list[str] = []
        """Each call to any store so far, in order."""
        self.one_call = threading.RLock()
        self.is_dead = False

    def __call__(self, url: str) -> ObjectStore:
        if url not in self._stores:
            self._stores[url] = _OneOfMany(self._opened(url), self._faults, of=self)
        return self._stores[url]


class _OneOfMany(FaultyObjectStore):
    def __init__(
        self, inner: ObjectStore, faults: Mapping[int, Fault], *, of: FaultyStores
    ) -> None:
        super().__init__(inner, faults)
        self.calls = of.calls
        self._all = of

    def _serve(self, call: str, act: Callable[[], _Answer]) -> _Answer:
        with self._all.one_call:  # a call has one number, whichever thread makes it
            if self._all.is_dead:
                raise Killed(f"{call}, although the process is dead")
            try:
                return super()._serve(call, act)
            except Killed:
                self._all.is_dead = True
                raise


class RefusingStores:
    """Opens stores of which one conditional write lands, and is refused all the same.

    So it goes when the reply to the first try is lost and the adapter repeats the write.

    Args:
        opened: Opens the real ones.
        number: Of that call to any store, from 0.
    """

    def __init__(self, opened: Callable[[str], ObjectStore], number: int) -> None:
        self._opened = opened
        self.number = number
        self.calls: list[str] = []

    def __call__(self, url: str) -> ObjectStore:
        return _Refusing(self._opened(url), of=self)


class _Refusing(FaultyObjectStore):
    def __init__(self, inner: ObjectStore, *, of: RefusingStores) -> None:
        super().__init__(inner)
        self.calls = of.calls
        self._number = of.number

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        number = len(self.calls)
        written = super().put_if_absent(key, body)
        return Refused() if number == self._number else written

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        number = len(self.calls)
        written = super().replace(key, body, etag=etag)
        return Refused() if number == self._number else written


class FlakyStores:
    """Opens stores that cannot write some keys, for a while or for ever.

    Args:
        opened: Opens the real ones.
        suffix: What these keys end in.
        failures: How many writes fail before they succeed.
    """

    def __init__(self, opened: Callable[[str], ObjectStore], *, suffix: str, failures: int) -> None:
        self._opened = opened
        self.suffix = suffix
        self.failures_left = failures

    def __call__(self, url: str) -> ObjectStore:
        return _Flaky(self._opened(url), of=self)


class _Flaky(FaultyObjectStore):
    def __init__(self, inner: ObjectStore, *, of: FlakyStores) -> None:
        super().__init__(inner)
        self._all = of

    def _serve(self, call: str, act: Callable[[], _Answer]) -> _Answer:
        if call.startswith("put_if_absent") and call.endswith(self._all.suffix):
            self._all.failures_left -= 1
            if self._all.failures_left >= 0:
                raise StoreUnavailableError(f"{call}: the disk is full, on purpose")
        return super()._serve(call, act)
