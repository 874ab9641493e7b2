"""How fast a job is, and when it will be done: a range, since chunks end in their own time.

The time since the workers began is cut into equal windows, and the rows committed in each make
one observation of the speed. The range is the mean speed plus and minus twice its standard error,
which is about 95 % if windows are alike; a job whose speed drifts gets a wide one, as it should.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Final

import msgspec

from tidegate_batch.core.wording import lasting, lasting_from_to

WINDOWS: Final = 8
"""Enough for a spread, and few enough that a window of a short job holds a chunk or two."""
_FEWEST_COMMITS: Final = 4
"""With fewer there is a speed, but no spread that would mean anything."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Speed, and the time until every row is committed; publishing comes on top."""

    rows_per_s: float
    eta_s: float
    eta_low_s: float | None = None
    """``None``, like the next, while too few chunks are committed to tell."""
    eta_high_s: float | None = None

    def __str__(self) -> str:
        """Say when, as a person would."""
        if self.eta_low_s is None or self.eta_high_s is None:
            return f"about {lasting(self.eta_s)} left"
        return f"{lasting_from_to(self.eta_low_s, self.eta_high_s)} left"


def outlook(
    commits: Sequence[tuple[float, int]], *, began_s: float, now_s: float, rows_left: int
) -> Outlook | None:
    """Foretell the end from what was committed so far.

    Args:
        commits: When each chunk was committed and its rows, in any order, times in seconds on
            the clock of the other two.
        began_s: When the workers began.
        now_s: The present; a job that stalls becomes slower by it.
        rows_left: Planned and not committed.

    Returns:
        ``None`` if nothing is committed yet.
    """
    spent_s, rows = now_s - began_s, sum(rows for _, rows in commits)
    if not rows or spent_s <= 0:
        return None
    speed = rows / spent_s
    eta_s = rows_left / speed
    if len(commits) < _FEWEST_COMMITS:
        return Outlook(rows_per_s=speed, eta_s=eta_s)
    error = _standard_error(commits, began_s=began_s, spent_s=spent_s)
    slowest = max(speed - 2 * error, speed / WINDOWS)  # some end is more use than none
    return Outlook(
        rows_per_s=speed,
        eta_s=eta_s,
        eta_low_s=rows_left / (speed + 2 * error),
        eta_high_s=rows_left / slowest,
    )


def _standard_error(
    commits: Sequence[tuple[float, int]], *, began_s: float, spent_s: float
) -> float:
    """Return that of the mean of the windows' speeds, in rows a second."""
    count = min(WINDOWS, len(commits))
    totals = [0] * count
    for at_s, rows in commits:
        place = int((at_s - began_s) / spent_s * count)
        totals[min(max(place, 0), count - 1)] += rows
    speeds = [total * count / spent_s for total in totals]
    mean = sum(speeds) / count
    variance = sum((speed - mean) ** 2 for speed in speeds) / (count - 1)
    return sqrt(variance / count)
