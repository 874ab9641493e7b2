"""Which JSON values are of which Arrow type; for what is told of a row, never for reading it."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import pyarrow as pa

_MOST_SHOWN: Final = 60
_MOST_AGREE: Final = 0.9
"""Of the first values of a column: if fewer are of one kind, it is not a few bad rows."""
_INTEGERS: Final = (pa.int64(), pa.uint64())


def fits(value: object, kind: pa.DataType, *, may_be_null: bool) -> bool:
    """Say whether the parser would take a value, as ``json.loads`` returns it, for this type."""
    if value is None:
        return may_be_null
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(
            fits(item, kind.value_type, may_be_null=may_be_null) for item in value
        )
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        return isinstance(value, bool) and pa.types.is_boolean(kind)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and _is_within(value, kind)
    if pa.types.is_floating(kind):
        return isinstance(value, int | float) and _is_finite(value)
    return isinstance(value, str)


def described(kind: pa.DataType) -> str:
    """Say in words what is expected, such as ``a number``."""
    if pa.types.is_list(kind):
        return f"a list, each item {described(kind.value_type)}"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return f"an integer ({kind})"
    return "a number" if pa.types.is_floating(kind) else "a string"


def shown(value: object) -> str:
    """Say what was found instead."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return f"the string {cut}" if isinstance(value, str) else f"the number {cut}"


def type_of(values: Sequence[object]) -> pa.DataType | None:
    """Return the type that a column of these values has; ``None`` if they have no common one.

    It is the first that nine of ten values fit; the rows of the others are bad ones. So integers
    stay integers, whatever stands beside a few of them: as floats, large ones would change. Text
    stays text, whether or not it looks like a date. Objects have no type: they could hold anything
    in the next row.
    """
    if not values:
        return pa.string()
    enough = _MOST_AGREE * len(values)
    integer = max(_INTEGERS, key=lambda kind: _fitting(values, kind))
    for kind in (pa.bool_(), integer, pa.string()):
        if _fitting(values, kind) >= enough:
            return kind
    if sum(_is_exact(value) for value in values) >= enough:
        return pa.float64()
    lists = [value for value in values if isinstance(value, list)]
    return _list_type(lists) if len(lists) >= enough else None


def _fitting(values: Sequence[object], kind: pa.DataType) -> int:
    return sum(fits(value, kind, may_be_null=False) for value in values)


def _is_exact(value: object) -> bool:
    """Say whether a value is a number that a float holds as it is written, were it an integer."""
    return fits(value, pa.float64(), may_be_null=False) and (
        isinstance(value, float) or (isinstance(value, int) and int(float(value)) == value)
    )


def _list_type(lists: Sequence[list[object]]) -> pa.DataType | None:
    item = type_of([item for value in lists for item in value if item is not None])
    return None if item is None else pa.list_(pa.field("element", item))


def _is_within(value: int, kind: pa.DataType) -> bool:
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0 <= value < 1 << bits
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
