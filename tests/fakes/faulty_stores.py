"""All stores of one process behind one script of faults, so that the process dies as a whole."""

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from tests.fakes.objects import Fault, FaultyObjectStore, Killed
from tidegate.objects.port import ObjectStore

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
