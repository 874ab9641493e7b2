"""Patience on a clock that only pauses move."""

import random
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.clock import ManualClock
from tidegate.objects.patient import Patience, PatientObjectStore
from tidegate.objects.port import ObjectStore, StoreBusyError

S = 1_000_000_000


@dataclass(slots=True)
class Waiting:
    """Remembers how long it was waited."""

    clock: ManualClock = field(default_factory=ManualClock)
    pauses_ns: list[int] = field(default_factory=list)

    def pause(self, duration_ns: int) -> None:
        self.pauses_ns.append(duration_ns)
        self.clock.advance(duration_ns)

    def patience(self, *, limit_s: int = 600) -> Patience:
        return Patience(
            limit_ns=limit_s * S, clock=self.clock, pause=self.pause, dice=random.Random(1)
        )


def patient(store: ObjectStore) -> PatientObjectStore:
    """Return a store that waits out what passes, without any time that passes.

    It has answered once already: one that never has would not be waited for.
    """
    waits = PatientObjectStore(store, Waiting().patience())
    while not waits.has_answered:
        with suppress(StoreBusyError):
            waits.head("anything")
    return waits
