"""What a host of model versions has counted, without a host."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.ids import ModelName, ModelRef, Version
from tidegate_realtime.core.hosting import Copy, State
from tidegate_realtime.core.lifecycle import Lifecycle


@dataclass
class FakeHostCounts:
    """One version that is ready, loaded in a second, and aliases that were read once."""

    lifecycle: Lifecycle
    loads: Mapping[tuple[str, str], int]
    load_seconds: Mapping[tuple[str, str], float]
    alias_reads: Mapping[tuple[str, str], int]


def counts_of(name: str) -> FakeHostCounts:
    lifecycle = Lifecycle([ModelRef.parse(name)])
    lifecycle.copies.append(Copy(name=ModelName(name), version=Version(1), state=State.READY))
    return FakeHostCounts(lifecycle, {(name, "ready"): 1}, {(name, "1"): 1.0}, {(name, "read"): 1})
