"""How long one model call takes, as a value: a law, its noise, rare stalls and slow drift.

The file format is documented in ``docs/profiles.md``. ``schema`` only grows; each released schema
keeps a fixture in ``tests/fixtures`` that must load for ever.
"""

import math
from typing import Literal

import msgspec

from tidegate.profiles.errors import ProfileError
from tidegate.profiles.laws import Linear, Table, require
from tidegate.units import ms_to_ns


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lognormal factor of mean 1 on every call: skewed to the right, as execution times are."""

    cv: float
    """Standard deviation by mean; 0 for none."""

    def __post_init__(self) -> None:
        """Refuse a negative spread."""
        require(math.isfinite(self.cv) and self.cv >= 0, "cv", "0 or more", self.cv)


class Stalls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Now and then a call takes this much longer: a page fault, a collection, a neighbour."""

    probability: float
    """For each call, from 0 to 1."""
    duration_ms: float
    """Added to the call; noise and drift leave it as it is."""

    def __post_init__(self) -> None:
        """Refuse what is no probability or no duration."""
        require(0 <= self.probability <= 1, "probability", "0 to 1", self.probability)
        require(self.duration_ms >= 0, "duration_ms", "0 or more", self.duration_ms)


class DriftStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From here on calls take ``factor`` times as long as the law says, until the next step."""

    at_s: float
    """Seconds since the replay began."""
    factor: float

    def __post_init__(self) -> None:
        """Refuse a step before the beginning and a factor that would stop or turn time."""
        require(self.at_s >= 0, "at_s", "0 or more", self.at_s)
        require(self.factor > 0, "factor", "above 0", self.factor)


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the numbers come from, and how far they can be trusted."""

    status: Literal["measured", "verified", "cross-validated", "assumed"]
    """``measured`` here; ``verified`` against the authors' raw figures; ``cross-validated`` with
    other figures that they published; ``assumed``: somebody's what-if."""
    source: str
    """A paper, a repository, or who measured."""
    date: str
    """ISO 8601: the year of a publication, the day of a measurement."""
    model: str = ""
    hardware: str = ""


class LatencyProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The execution time of one model on one piece of hardware, by batch size."""

    schema: Literal[1]
    name: str
    law: Linear | Table
    """The mean by size, without stalls and drift."""
    origin: Origin
    noise: Noise | None = None
    """Instead of the spread that a table measured; a linear law has none of its own."""
    stalls: Stalls | None = None
    drift: tuple[DriftStep, ...] = ()
    """In the order of time; before the first step the factor is 1."""

    def __post_init__(self) -> None:
        """Refuse drift that steps back in time."""
        starts = [step.at_s for step in self.drift]
        require(starts == sorted(set(starts)), "drift", "at_s in rising order", starts)

    @property
    def allowed_sizes(self) -> tuple[int, ...] | None:
        """Batch sizes that calls should be padded to, rising; ``None`` if every size will do."""
        if isinstance(self.law, Linear):
            return None
        return tuple(size.rows for size in self.law.sizes)

    @property
    def largest_size(self) -> int | None:
        """Most rows that it says something about; ``None`` if there is no limit."""
        return None if isinstance(self.law, Linear) else self.law.sizes[-1].rows

    def mean_ns(self, rows: int) -> int:
        """Return the mean execution time of a batch, without stalls and drift.

        Between two measured sizes it is interpolated; below the smallest it is the smallest's,
        since such a batch is padded to it.

        Raises:
            ProfileError: ``rows`` is below 1 or above ``largest_size``.
        """
        self._check(rows)
        return ms_to_ns(self.law.mean_ms(rows))

    def std_ns(self, rows: int) -> int:
        """Return the standard deviation of the execution time, without stalls and drift.

        Raises:
            ProfileError: ``rows`` is below 1 or above ``largest_size``.
        """
        self._check(rows)
        if self.noise is not None:
            return ms_to_ns(self.law.mean_ms(rows) * self.noise.cv)
        return ms_to_ns(self.law.std_ms(rows))

    def _check(self, rows: int) -> None:
        if rows < 1:
            raise ProfileError.of_field(self.name, "rows", expected="1 or more", found=rows)
        if self.largest_size is not None and rows > self.largest_size:
            raise ProfileError.beyond(self.name, rows=rows, largest=self.largest_size)
