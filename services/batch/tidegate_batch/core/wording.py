"""Numbers and names as people read them."""

from collections.abc import Sequence
from typing import Final

_LISTED_NAMES: Final = 5
_MOST_NAME_CHARS: Final = 60
_THREE_DIGITS: Final = 99.5
"""Rounded, from here on."""
_MEGABYTE: Final = 1_000_000


def counted(count: int, noun: str) -> str:
    """Return ``1 part``, ``2 parts``, for a noun whose plural is regular."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return ``'a', 'b' and 3 more``: the first names, cut where they are long."""
    told = [
        repr(name if len(name) <= _MOST_NAME_CHARS else f"{name[:_MOST_NAME_CHARS]}…")
        for name in names[:_LISTED_NAMES]
    ]
    more = len(names) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def lasting(seconds: float) -> str:
    """Return ``42 s``, ``12 min`` or ``3.4 h``: two digits are as much as a forecast knows."""
    number, unit = _lasting(seconds)
    return f"{number} {unit}"


def lasting_from_to(low_s: float, high_s: float) -> str:
    """Return ``4 to 9 min``, or ``50 s to 2 min`` where the units differ."""
    (low, low_unit), (high, high_unit) = _lasting(low_s), _lasting(high_s)
    if low_unit != high_unit:
        return f"{low} {low_unit} to {high} {high_unit}"
    return f"{low} {low_unit}" if low == high else f"{low} to {high} {low_unit}"


def _lasting(seconds: float) -> tuple[str, str]:
    if seconds < _THREE_DIGITS:
        return f"{seconds:.0f}", "s"
    if seconds < _THREE_DIGITS * 60:
        return f"{seconds / 60:.0f}", "min"
    return f"{seconds / 3600:.1f}", "h"


def sized(size_bytes: float) -> str:
    """Return ``12 kB``, ``3.4 MB`` or ``1,234 MB``: decimal, as disks and bills count."""
    megabytes = size_bytes / _MEGABYTE
    if megabytes < 1:
        return f"{1000 * megabytes:.0f} kB"
    return f"{megabytes:.1f} MB" if megabytes < _THREE_DIGITS else f"{megabytes:,.0f} MB"
