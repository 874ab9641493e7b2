"""What one request may carry, and the look at its raw bytes before any parser sees them.

Parsers have died of nesting (CVE-2024-27454, CVE-2025-67221), and a million numbers hold the
event loop for about 60 ms: both are counted first, in C, without building a value.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidegate.oip.errors import MalformedJsonError, TooManyElementsError
from tidegate.oip.scanning import has_more_than

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """Limits of one request; each is inclusive."""

    depth: int = 32
    """Nesting of arrays and objects."""
    commas: int = 1_048_576
    """Commas in the whole body: a bound on the values in it that costs one scan."""
    members: int = _MIB // 4
    """Names with values in its objects: to make them takes four times as long as numbers."""
    containers: int = _MIB // 4
    """Arrays and objects, likewise."""
    rows: int = 4_096
    tensors: int = 64
    outputs: int = 64
    """Requested outputs."""
    rank: int = 8
    elements: int = 16 * _MIB
    """Values of one binary tensor."""
    request_elements: int = 32 * _MIB
    """Values of all binary tensors of a request."""
    items: int = _MIB
    """Values of one tensor that are looked at one by one, as those of JSON are."""
    texts: int = _MIB // 4
    """Items of one binary BYTES tensor: to make them takes about 60 ms, too."""
    item_bytes: int = 16 * _MIB
    """UTF-8 bytes of one BYTES item."""
    reply_bytes: int = 256 * _MIB
    """Of one reply, reckoned before it is written."""


DEFAULT_LIMITS: Final = WireLimits()
UNCOUNTED_BYTES: Final = min(
    DEFAULT_LIMITS.commas, DEFAULT_LIMITS.members, DEFAULT_LIMITS.containers
)
"""A body up to here cannot have too much of anything that ``check_raw_json`` counts but depth."""

_SHORT_BYTES: Final = 1_024
"""Up to here it takes longer to search a body than to count in it."""
_BLOCK: Final = _MIB
_ADVICE: Final = "Send its rows in several requests, or as binary tensor data."
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, also one that never ends, so that each byte is looked at once."""
_OTHER_BYTES: Final = bytes(set(range(256)) - set(b'":[]{}'))
"""All that says nothing of the structure."""
_CLOSING_BIT: Final = 0b100
"""Set in ``]`` and ``}``, not in ``[`` and ``{``."""


def check_raw_json(body: bytes, limits: WireLimits = DEFAULT_LIMITS) -> None:
    """Refuse a body that is too much for the parser; takes time linear in its length.

    Raises:
        TooManyElementsError: More commas than allowed, wherever they stand, or more names, or more
            arrays and objects.
        MalformedJsonError: Nested deeper than allowed. Brackets in strings do not count.
    """
    # No body has more commas than bytes, so that nearly all need not be counted.
    if len(body) > limits.commas and (commas := body.count(b",")) > limits.commas:
        raise TooManyElementsError.of(
            "values (commas in its JSON)",
            limit=limits.commas,
            found=commas,
            advice=_ADVICE,
        )
    if _has_many_brackets(body, limits.depth) and _is_deeper(body, limits.depth):
        raise MalformedJsonError(
            f"The JSON is nested deeper than {limits.depth} levels; a request needs no more than "
            "the rank of its tensors and a few."
        )
    if len(body) > min(limits.members, limits.containers):
        _check_structure(body, limits)


def _check_structure(body: bytes, limits: WireLimits) -> None:
    """Count in the body, and only where that is too much without what stands in strings."""
    if body.count(b":") <= limits.members and _containers(body) <= limits.containers:
        return
    marks = _marks(body)
    for what, limit, found in (
        ("names (colons in its JSON)", limits.members, marks.count(b":")),
        ("arrays and objects in its JSON", limits.containers, _containers(marks)),
    ):
        if found > limit:
            raise TooManyElementsError.of(what, limit=limit, found=found, advice=_ADVICE)


def _containers(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _has_many_brackets(body: bytes, limit: int) -> bool:
    """Whether it could be nested deeper; where not, neither kind is more than half of the limit."""
    if len(body) < _SHORT_BYTES:
        return _containers(body) > limit
    half = limit // 2
    return has_more_than(body, b"[", half) or has_more_than(body, b"{", half)


def _is_deeper(body: bytes, limit: int) -> bool:
    brackets = _marks(body).translate(None, b":")
    depth = 0
    for start in range(0, len(brackets), _BLOCK):  # in blocks: memory stays small whatever came
        block = np.frombuffer(brackets, np.uint8, offset=start, count=-1)[:_BLOCK]
        steps = np.where(block & _CLOSING_BIT, np.int8(-1), np.int8(1))
        depths = np.cumsum(steps, dtype=np.int32)
        if depth + int(depths.max()) > limit:
            return True
        depth += int(depths[-1])
    return False


def _marks(body: bytes) -> bytes:
    """Return the brackets and colons that do not stand in strings, in their order."""
    if b"\\" in body:
        return _STRINGS.sub(b"", body).translate(None, _OTHER_BYTES)
    marks = body.translate(None, _OTHER_BYTES).replace(b'""', b"")
    return _STRINGS.sub(b"", marks) if b'"' in marks else marks
