"""Turns instants into requests, one at a time."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Final

from tidegate_loadtest.arrivals.port import Instants
from tidegate_realtime.core.request import Request

_CHUNK: Final = 65_536
"""Instants that are Python integers at one time, so that a day of them needs no gigabytes."""


def requests_at(at_ns: Instants, *, objective_ns: int, sheddable: bool = True) -> Iterator[Request]:
    """Give a request of one row for each instant, due ``objective_ns`` after it.

    Mixed deadlines, several rows or classes are another iterator like this one. (It has no frame
    of its own: that would be a twentieth of what a request costs.)

    Args:
        at_ns: When they arrive, the earliest first.
        objective_ns: From arrival to deadline.
        sheddable: Whether they may be refused and given up; not for a best-effort model.
    """
    chunks = (at_ns[start : start + _CHUNK] for start in range(0, len(at_ns), _CHUNK))
    return chain.from_iterable(
        map(
            Request,
            *(repeat(1), repeat(None), chunk.tolist(), (chunk + objective_ns).tolist()),
            *(repeat(2), repeat(sheddable)),
        )
        for chunk in chunks
    )
