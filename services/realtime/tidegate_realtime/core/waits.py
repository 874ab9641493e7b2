"""How long whoever had waited longest in each batch had waited when it started."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.units import NS_PER_MS, Nanoseconds

WAIT_EDGES_NS: Final = tuple(
    Nanoseconds(tenths * NS_PER_MS // 10)
    for tenths in (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
)
"""Upper edges, inclusive, from 0.1 ms to 1 s; a last count is of what lies above them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatistics:
    """Of all batches so far."""

    counts: Sequence[int]
    """By ``WAIT_EDGES_NS``, and those above."""
    total_ns: int
    """The sum of all waits."""


class OldestWaits:
    """One number for each batch."""

    __slots__ = ("_counts", "_total_ns")

    def __init__(self) -> None:
        self._counts = [0] * (len(WAIT_EDGES_NS) + 1)
        self._total_ns = 0

    def add(self, waited_ns: int) -> None:
        """Note it of a batch that starts now."""
        self._counts[bisect_left(WAIT_EDGES_NS, waited_ns)] += 1
        self._total_ns += waited_ns

    def statistics(self) -> WaitStatistics:
        """Return the counts so far."""
        return WaitStatistics(counts=tuple(self._counts), total_ns=self._total_ns)
