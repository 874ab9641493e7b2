"""The highest values of an output instead of all of them, as Triton's classification extension.

https://github.com/triton-inference-server/server, "Classification Extension". Values are written
with as few digits as name them exactly, not with six decimals: a small probability stays one.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidegate.oip.binary import Array
from tidegate.oip.errors import NonFiniteOutputError, UnsupportedParameterError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.shapes import check_elements

_BESIDE_FLOATS: Final = "biu"


def check_classified(name: str, datatype: str) -> None:
    """Refuse to rank what has no order.

    Raises:
        UnsupportedParameterError: The output is BYTES.
    """
    if datatype == "BYTES":
        raise UnsupportedParameterError(
            f"The output {name!r} is BYTES, which has no highest values; ask for it without "
            "'classification'."
        )


def classify(
    values: Array,
    classes: int,
    *,
    name: str,
    labels: Sequence[str] = (),
    limits: WireLimits = DEFAULT_LIMITS,
) -> Array:
    """Return the highest values of each row, the highest first.

    Args:
        values: ``(rows, …)``; the values of a row are counted through as one list.
        classes: At least 1; where a row has fewer values, all of them.
        name: Of the output.
        labels: What the values of a row are called; used if there is one for each.
        limits: Of the number of strings.

    Returns:
        ``(rows, min(classes, values of a row))`` strings ``value:index[:label]``; of equal values
        the one with the lower index comes first.

    Raises:
        NonFiniteOutputError: NaN or infinity is among the values.
        TooManyElementsError: More strings than one tensor may have.
    """
    rows = values.shape[0]
    table = values.reshape(rows, -1) if values.size else values.reshape(rows, 0)
    if table.dtype.kind not in _BESIDE_FLOATS:
        table = table if table.dtype == np.float64 else table.astype(np.float32)
        if not np.isfinite(table).all():
            raise NonFiniteOutputError.of_output(name)
    width = table.shape[1]
    count = min(classes, width)
    check_elements(name, rows * count, limits.items)
    # Sorting backwards what stands backwards keeps equal values in their order.
    order = (width - 1 - np.argsort(table[:, ::-1], axis=1, kind="stable"))[:, ::-1][:, :count]
    result = np.empty((rows, count), object)
    names = labels if len(labels) == width else ()
    for row in range(rows):
        for place, index in enumerate(order[row].tolist()):
            said = f"{_written(table[row, index])}:{index}"
            result[row, place] = f"{said}:{names[index]}" if names else said
    return result


def _written(value: np.generic) -> str:
    return str(int(value)) if value.dtype.kind == "b" else str(value)
