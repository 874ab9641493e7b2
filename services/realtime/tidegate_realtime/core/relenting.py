"""At which percentile promises are made while nobody could be promised the objective's own.

On a machine that lost its cores to a neighbour, or with a model of which three calls in a hundred
stall, not even a request that finds an executor idle may be promised an answer at p99. To refuse
everybody then would keep no promise either: there would be none. So it is promised less surely, at
the highest percentile at which such a request is in time, and what is late of it is counted like
everything that is late. (Simulated, 5 ms for 8 rows, 3 % of the calls 60 ms longer, 50 ms, 500
requests/s: 10 answers a second in time at p99 throughout, 370 so.)

It holds for a model that has served: one that is too slow when it starts is not served at all.
"""

from typing import Final

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.confidence import caution
from tidegate_realtime.core.latency_model import LatencyModel

STEPS: Final = (0.95, 0.9, 0.75, 0.5)
"""Percentiles below the usual ones. Below the median most of what is answered would be late."""
HELD_NS: Final = 10 * NS_PER_SECOND
"""How long to stay with a lower one: to promise more again and to be wrong sheds everybody."""
_ROOM_SHARE: Final = 0.8
"""Of the time that there is, that the higher percentile must need at most to return to it."""


class Relenting:
    """Chooses the percentile of one latency model."""

    __slots__ = ("_asked", "_until_ns")

    def __init__(self, asked: float) -> None:
        """Begin with the percentile of the objective."""
        self._asked = asked
        self._until_ns = 0

    def review(self, model: LatencyModel, rows: int, room_ns: int, now_ns: Nanoseconds) -> bool:
        """Move the model to the percentile that it can keep; return whether it has moved.

        To be called after each batch, which costs about 1 µs.

        Args:
            model: At least one size must have been observed.
            rows: Of a usual request.
            room_ns: What the objective leaves for a call.
            now_ns: The present.
        """
        rows = min(rows, model.largest_size)
        mean_ns = model.mean_ns(rows)
        needed_ns = _promised_ns(mean_ns, model.tail_ns(rows), model.percentile)
        is_possible = needed_ns <= room_ns
        if is_possible and (model.percentile == self._asked or now_ns < self._until_ns):
            return False
        chosen = self._choose(model, rows, room_ns, is_possible=is_possible)
        self._until_ns = now_ns + HELD_NS
        if chosen == model.percentile:
            return False
        model.move_to(chosen, now_ns)
        return True

    def _choose(self, model: LatencyModel, rows: int, room_ns: int, *, is_possible: bool) -> float:
        """Return the highest percentile that is possible; the present one if none is."""
        present, mean_ns = model.percentile, model.mean_ns(rows)
        for percentile in (self._asked, *(step for step in STEPS if step < self._asked)):
            if percentile == present:
                if is_possible:
                    return present
                continue
            if percentile > present and not is_possible:
                continue
            quantile_ns = model.quantile_ns(rows, percentile)
            share = _ROOM_SHARE if percentile > present else 1.0
            if _promised_ns(mean_ns, quantile_ns, percentile) <= share * room_ns:
                return percentile
        return present


def _promised_ns(mean_ns: int, tail_ns: int, percentile: float) -> float:
    """Return what is promised of a call that begins at once; see ``admission``."""
    return mean_ns + caution(percentile) * max(0, tail_ns - mean_ns)
