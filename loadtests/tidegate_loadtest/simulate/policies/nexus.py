"""Nexus' two ways to drop (Shen et al., SOSP'19, section 4.3); both know the profile.

*Lazy* drops a request only when it could not make it even alone, and then takes the largest batch
that the oldest survivor allows: under overload that one is always about to be late, so batches
are small and the executor is wasted. *Early* looks for a batch of the best size and gives those
up that would not survive it.
"""

from typing import Final

from tidegate.profiles import LatencyProfile
from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.policies.fifo import Choice, Drop, FifoPolicy, Take

UNLIMITED_ROWS: Final = 4_096
"""Where a profile has no largest size: more than any objective of these tests leaves time for."""


class LazyDrop(FifoPolicy):
    """Drop what is lost, then take what the oldest allows."""

    def __init__(
        self, profile: LatencyProfile, *, executors: int, objective_ns: Nanoseconds
    ) -> None:
        """Tabulate the profile.

        Args:
            profile: How long batches take; its noise is not looked at.
            executors: Batches that may run at the same time.
            objective_ns: From arrival to answer; a larger ``2 * l(b)`` is no batch of Nexus.
        """
        super().__init__(executors=executors, largest_rows=profile.largest_size)
        most = self.limit(UNLIMITED_ROWS)
        sizes = profile.allowed_sizes or range(1, most + 1)
        self._took_ns = [0]
        """By rows, padded to the next allowed size, up to the last that fits the objective."""
        for size in sizes:
            size_ns = profile.mean_ns(size)
            if size_ns > objective_ns and len(self._took_ns) > 1:
                break
            self._took_ns += [size_ns] * (size + 1 - len(self._took_ns))
        halves = [r for r, took_ns in enumerate(self._took_ns) if 2 * took_ns <= objective_ns]
        self.best_rows = max(1, halves[-1])
        """The half rule: who just misses a batch waits for it and rides in one of the same size."""

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Look at the oldest alone."""
        left_ns = self.waiting[0].deadline_at_ns - now_ns
        if self._took_ns[1] > left_ns:
            return Drop(1)
        rows = min(len(self.waiting), len(self._took_ns) - 1)
        while self._took_ns[rows] > left_ns:
            rows -= 1
        return Take(rows)


class EarlyDrop(LazyDrop):
    """Give up who stands in the way of a batch of the best size."""

    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Look at the batch that the oldest would ride in."""
        rows = min(len(self.waiting), self.best_rows)
        if now_ns + self._took_ns[rows] > self.waiting[0].deadline_at_ns:
            return Drop(1)
        return Take(rows)
