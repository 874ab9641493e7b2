"""The mean execution time by batch size: a line, or what was measured."""

import math
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec

_ROWS: Final = attrgetter("rows")


def require(holds: bool, field: str, expected: str, found: object) -> None:
    """Refuse one field of a profile.

    Raises:
        ValueError: It does not hold; msgspec adds where in the file the field stands.
    """
    if not holds:
        raise ValueError(f"{field}: expected {expected}, found {found!r}")


class Linear(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="linear",
):
    """``alpha_ms * rows + beta_ms``: a law, so it holds for every number of rows."""

    alpha_ms: float
    """For each row."""
    beta_ms: float
    """For each call."""

    def __post_init__(self) -> None:
        """Refuse a line on which a call could take no time."""
        for field, value in (("alpha_ms", self.alpha_ms), ("beta_ms", self.beta_ms)):
            require(math.isfinite(value) and value >= 0, field, "0 or more", value)
        require(self.mean_ms(1) > 0, "alpha_ms + beta_ms", "above 0", self.mean_ms(1))

    def mean_ms(self, rows: int) -> float:
        """Return the time of a call."""
        return self.alpha_ms * rows + self.beta_ms

    def std_ms(self, rows: int) -> float:
        """Return 0: a line was fitted to means and knows no spread."""
        del rows
        return 0.0


class MeasuredSize(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What was measured of one batch size; what is ``None`` was not published."""

    rows: int
    mean_ms: float
    std_ms: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    runs: int | None = None
    """Calls that were timed. A p99 of fewer than 100 is the slowest of them."""

    def __post_init__(self) -> None:
        """Refuse what no clock can have shown."""
        require(self.rows >= 1, "rows", "1 or more", self.rows)
        require(self.mean_ms > 0, "mean_ms", "above 0", self.mean_ms)
        require(self.std_ms >= 0, "std_ms", "0 or more", self.std_ms)


class Table(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="table",
):
    """Measured sizes with straight lines between them, and nothing beyond the largest."""

    sizes: tuple[MeasuredSize, ...]
    """By rising number of rows."""

    def __post_init__(self) -> None:
        """Refuse a table that is empty or out of order."""
        rows = [size.rows for size in self.sizes]
        require(bool(rows), "sizes", "at least one", rows)
        require(rows == sorted(set(rows)), "sizes", "rising numbers of rows", rows)

    def mean_ms(self, rows: int) -> float:
        """Return the mean of a size up to the largest."""
        return self._between(rows, lambda size: size.mean_ms)

    def std_ms(self, rows: int) -> float:
        """Return the standard deviation of a size up to the largest."""
        return self._between(rows, lambda size: size.std_ms)

    def _between(self, rows: int, value: Callable[[MeasuredSize], float]) -> float:
        place = bisect_left(self.sizes, rows, key=_ROWS)
        above = self.sizes[place]
        if above.rows == rows or place == 0:
            return value(above)
        below = self.sizes[place - 1]
        share = (rows - below.rows) / (above.rows - below.rows)
        return value(below) + share * (value(above) - value(below))
