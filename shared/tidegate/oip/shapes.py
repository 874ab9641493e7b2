"""What must hold of a shape before anything is read by it; Python integers, which never wrap."""

from collections.abc import Sequence
from math import prod

from tidegate.oip.errors import MalformedRequestError, TooManyElementsError, TooManyRowsError
from tidegate.oip.limits import WireLimits


def check_shape(name: str, shape: Sequence[int], limits: WireLimits) -> None:
    """Refuse a shape that no tensor can have.

    Raises:
        MalformedRequestError: Too many dimensions, none, or a negative one; or an empty one beside
            others that are too long for any array, although it would hold nothing.
    """
    if not 0 < len(shape) <= limits.rank:
        raise MalformedRequestError(
            f"{name!r}: its shape has {len(shape)} dimensions; 1 (the rows) to {limits.rank} are "
            "accepted."
        )
    if min(shape) < 0:
        raise MalformedRequestError(f"{name!r}: its shape has a negative dimension.")
    if 0 in shape and prod(filter(None, shape)) > limits.elements:
        raise MalformedRequestError(f"{name!r}: its shape is empty, and too long beside that.")


def check_rows(rows: int, limits: WireLimits) -> None:
    """Refuse more rows than one request may carry.

    Raises:
        TooManyRowsError: With the limit and what was found.
    """
    if rows > limits.rows:
        raise TooManyRowsError.of(
            "rows", limit=limits.rows, found=rows, advice="Send them in several requests."
        )


def check_elements(name: str, found: int, limit: int) -> None:
    """Refuse more values than one tensor may have.

    Raises:
        TooManyElementsError: With the limit and what was found.
    """
    if found > limit:
        raise TooManyElementsError.of(
            f"values in {name!r}",
            limit=limit,
            found=found,
            advice="Send its rows in several requests.",
        )


def in_figures(count: int) -> str:
    """Write a product of what a caller sent: Python itself writes 4,300 digits and no more."""
    return str(count) if count < 1 << 63 else "more than 2^63"
