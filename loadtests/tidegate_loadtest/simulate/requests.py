"""Turns instants into requests, one at a time."""

from collections.abc import Iterator
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_loadtest.arrivals.port import Instants
from tidegate_realtime.core.request import Request

_CHUNK: Final = 65_536
"""Instants that are Python integers at one time, so that a day of them needs no gigabytes."""


def requests_at(at_ns: Instants, *, objective_ns: int, sheddable: bool = True) -> Iterator[Request]:
    """Yield a request of one row for each instant, due ``objective_ns`` after it.

    Mixed deadlines, several rows or classes are another generator like this one.

    Args:
        at_ns: When they arrive, the earliest first.
        objective_ns: From arrival to deadline.
        sheddable: Whether they may be refused and given up; not for a best-effort model.
    """
    for start in range(0, len(at_ns), _CHUNK):
        for at in at_ns[start : start + _CHUNK].tolist():
            yield Request(1, None, at, Nanoseconds(at + objective_ns), 2, sheddable)
