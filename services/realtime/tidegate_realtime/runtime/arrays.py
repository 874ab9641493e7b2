"""From the inputs of requests to one batch, and from its outputs back to each."""

from collections.abc import Sequence

import numpy as np

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors


class UnusableBatchError(BackendError):
    """No single row is to blame, so that there is none to look for."""


def gather(parts: Sequence[Tensors]) -> Tensors:
    """Stack the parts' rows, in their order.

    Args:
        parts: At least one; all with the same names, datatypes and row shapes.

    Returns:
        One array ``(rows, …)`` per name. Of a single part the very same arrays, not copied.
    """
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut(tensors: Tensors, start: int, stop: int) -> Tensors:
    """Take the rows from ``start`` up to, but without, ``stop``, as views."""
    return {name: array[start:stop] for name, array in tensors.items()}


def wrong_rows(tensors: Tensors, rows: int) -> str | None:
    """Describe the first array whose leading dimension is not ``rows``; ``None`` if all fit."""
    for name, array in tensors.items():
        if not array.ndim or len(array) != rows:
            return f"{name!r} has shape {list(array.shape)}, not {rows} rows"
    return None
