"""What transforms of a single column share: finding each row's value."""

from collections.abc import Mapping, Sequence
from typing import Final

from tidegate.tensors.signature import SignatureMismatchError

MOST_ELEMENTS: Final = 16_777_216
"""Of one tensor that a request becomes, as of one that a request carries: a few bytes may be
padded to the length of the longest text, or scaled up to an image."""


def values_of(instances: Sequence[object], column: str) -> list[object]:
    """Take each row's value: that of an object's column, or the bare value.

    Raises:
        SignatureMismatchError: An object lacks the column; the message names row and column.
    """
    return [
        _named(row, column, place) if isinstance(row, Mapping) else row
        for place, row in enumerate(instances)
    ]


def _named(row: Mapping[str, object], column: str, place: int) -> object:
    if column in row:
        return row[column]
    named = ", ".join(sorted(f"{name:.64}" for name in row)[:5])
    raise wrong_value(column, place, expected="a value", found=f"only {named}" if named else "none")


def wrong_value(column: str, row: int, *, expected: str, found: str) -> SignatureMismatchError:
    """Describe one row's value by what was expected and what came."""
    return SignatureMismatchError.of_input(column, expected=f"{expected} in row {row}", found=found)


def refuse_too_many(column: str, rows: int, *, row_elements: int) -> None:
    """Refuse a request whose tensor would be too large, before it is allocated.

    Raises:
        SignatureMismatchError: With how many such rows may come at once.
    """
    most = max(1, MOST_ELEMENTS // row_elements)
    if rows > most:
        raise SignatureMismatchError.of_input(
            column,
            expected=f"at most {most} rows of {row_elements} elements each in one request",
            found=f"{rows} rows",
        )


def refuse_too_much(column: str, found: int, *, most: int, of: str) -> None:
    """Refuse a request that would take too long to read, before that is begun.

    Raises:
        SignatureMismatchError: With how much may come at once.
    """
    if found > most:
        raise SignatureMismatchError.of_input(
            column, expected=f"at most {most} {of} in one request", found=f"{found}"
        )


def shown(value: object) -> str:
    """Describe a value that has the wrong type, without what it holds."""
    match value:
        case None:
            return "no value"
        case bytes():
            return f"{len(value)} bytes"
        case str():
            return f"text of {len(value)} characters"
        case _:
            return f"{value!r:.60}"
