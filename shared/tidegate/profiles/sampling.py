"""One execution time after the other out of a profile."""

from bisect import bisect_right
from math import exp, log, log1p, sqrt
from typing import Protocol

from tidegate.profiles.profile import LatencyProfile
from tidegate.units import ms_to_ns, seconds_to_ns


class RandomSource(Protocol):
    """Where draws come from; a seeded ``random.Random`` is one."""

    def random(self) -> float:
        """Return the next number of [0, 1)."""
        ...

    def gauss(self, mu: float, sigma: float) -> float:
        """Return the next normally distributed number."""
        ...


class ProfileSampler:
    """Draws execution times. The same profile, seed and calls give the same times.

    A draw takes about a microsecond, so that a simulated day is not spent on dice. Not to be
    shared by threads: their order would decide who gets which time.
    """

    def __init__(
        self, profile: LatencyProfile, random: RandomSource, *, started_at_ns: int = 0
    ) -> None:
        """Prepare draws.

        Args:
            profile: What to replay.
            random: Seeded by the caller.
            started_at_ns: The instant from which the profile's drift counts.
        """
        self.profile = profile
        self._random = random
        self._stalls = profile.stalls
        self._stall_ns = ms_to_ns(profile.stalls.duration_ms) if profile.stalls else 0
        self._drift_at_ns = [started_at_ns + seconds_to_ns(step.at_s) for step in profile.drift]
        self._factors = [1.0, *(step.factor for step in profile.drift)]
        self._lognormals: dict[int, tuple[float, float]] = {}
        """mu and sigma of log(ns), by rows."""

    def draw_ns(self, rows: int, now_ns: int) -> int:
        """Return how long one call takes, at least 1.

        Args:
            rows: Rows of the batch.
            now_ns: When the call begins; drift depends on it.

        Raises:
            ProfileError: The profile says nothing about that many rows.
        """
        mu, sigma = self._lognormals.get(rows) or self._lognormal(rows)
        took_ns = exp(self._random.gauss(mu, sigma) if sigma else mu)
        if self._drift_at_ns:
            took_ns *= self._factors[bisect_right(self._drift_at_ns, now_ns)]
        if self._stalls and self._random.random() < self._stalls.probability:
            took_ns += self._stall_ns
        return max(1, round(took_ns))

    def _lognormal(self, rows: int) -> tuple[float, float]:
        """Fit mean and deviation by moments, so that noise leaves the mean where it is."""
        mean_ns, std_ns = self.profile.mean_ns(rows), self.profile.std_ns(rows)
        variance = log1p((std_ns / mean_ns) ** 2)
        self._lognormals[rows] = found = log(mean_ns) - variance / 2, sqrt(variance)
        return found
