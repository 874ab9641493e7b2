"""Which keys a pattern means: ``*``, ``?`` and ``[…]`` within a segment, ``**`` across any number.

Names that begin with ``.`` or ``_`` are meant only where the pattern says so itself.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

_WILD: Final = re.compile(r"[*?\[]")


def plain_start(pattern: str) -> str:
    """Return what stands before the first wildcard; all of it if there is none."""
    return _WILD.split(pattern, maxsplit=1)[0]


def matches(segments: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a key is meant; of both, the parts between the slashes."""
    if not pattern:
        return not segments
    if pattern[0] == "**":
        return matches(segments, pattern[1:]) or (
            bool(segments) and _fits(segments[0], "*") and matches(segments[1:], pattern)
        )
    return bool(segments) and _fits(segments[0], pattern[0]) and matches(segments[1:], pattern[1:])


def leads_on(folders: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether something below these folders could match."""
    if not folders or not pattern:
        return bool(pattern)
    if pattern[0] == "**":
        return leads_on(folders, pattern[1:]) or (
            _fits(folders[0], "*") and leads_on(folders[1:], pattern)
        )
    return _fits(folders[0], pattern[0]) and leads_on(folders[1:], pattern[1:])


def _fits(segment: str, pattern: str) -> bool:
    is_side_file = segment[0] in "._" and segment[0] != pattern[0]
    return not is_side_file and fnmatchcase(segment, pattern)
