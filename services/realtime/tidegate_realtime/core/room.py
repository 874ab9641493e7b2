"""Room in memory for one more model version: who has to go for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.units import Nanoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """One copy that holds memory."""

    size_bytes: int
    may_go: bool
    """Whether it may be unloaded for another: an operator loaded it, and nobody else needs it."""
    used_at_ns: Nanoseconds
    """When a request last asked it."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Not even without all that may go."""

    free_bytes: int
    """What would be left."""


def make_room(
    needed_bytes: int, occupants: Sequence[Occupant], *, limit_bytes: int
) -> list[int] | NoRoom:
    """Return whom to unload, by place in ``occupants``: those least recently used, and no more.

    Args:
        needed_bytes: What the newcomer takes.
        occupants: Everything that holds memory; what is leaving already, as ``may_go = False``
            with no bytes.
        limit_bytes: For all together.
    """
    free_bytes = limit_bytes - sum(each.size_bytes for each in occupants)
    by_use = sorted(
        (place for place, each in enumerate(occupants) if each.may_go),
        key=lambda place: occupants[place].used_at_ns,
    )
    going: list[int] = []
    for place in by_use:
        if free_bytes >= needed_bytes:
            break
        going.append(place)
        free_bytes += occupants[place].size_bytes
    return going if free_bytes >= needed_bytes else NoRoom(free_bytes)
