"""Stand-ins for what runs batches: they take the time that a profile says, and no other."""

from random import Random
from typing import Protocol

from tidegate.profiles import LatencyProfile, ProfileSampler


class Execution(Protocol):
    """How long model calls take."""

    def draw_ns(self, rows: int, now_ns: int) -> int:
        """Return the time of a call with that many rows that starts now."""
        ...


class PaddedExecution:
    """Draws from a profile, padded to its allowed sizes as a runner would pad."""

    def __init__(self, profile: LatencyProfile, *, seed: int) -> None:
        self._sampler = ProfileSampler(profile, Random(seed))
        self._sizes = profile.allowed_sizes or ()
        self._padded: dict[int, int] = {}

    def draw_ns(self, rows: int, now_ns: int) -> int:
        """Draw one time.

        Raises:
            ProfileError: The profile says nothing about that many rows.
        """
        padded = self._padded.get(rows)
        if padded is None:
            padded = min((size for size in self._sizes if size >= rows), default=rows)
            self._padded[rows] = padded
        return self._sampler.draw_ns(padded, now_ns)
