"""The highest values of an output instead of all of them, as Triton's classification extension.

https://github.com/triton-inference-server/server, "Classification Extension". Values are written
as in JSON, with as few digits as name them, and not with six decimals: a small one stays above 0.
"""

from collections.abc import Sequence

import numpy as np
import orjson

from tidegate.oip.binary import Array
from tidegate.oip.errors import NonFiniteOutputError, UnsupportedParameterError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.shapes import check_elements


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
        limits: Of the number of values (a million take 80 ms to rank), and of strings.

    Returns:
        ``(rows, min(classes, values of a row))`` strings ``value:index[:label]``; of equal values
        the one with the lower index comes first.

    Raises:
        NonFiniteOutputError: NaN or infinity is among the values.
        TooManyElementsError: More values than may be ranked, or more strings than may be made.
    """
    check_elements(name, values.size, limits.items)
    table = _ranked_as(values, name)
    rows, width = table.shape
    count = min(classes, width)
    check_elements(name, rows * count, limits.texts)
    # Sorting backwards what stands backwards keeps equal values in their order.
    order = (width - 1 - np.argsort(table[:, ::-1], axis=1, kind="stable"))[:, ::-1][:, :count]
    indices = order.ravel().tolist()
    highest = _written(np.take_along_axis(table, order, axis=1))
    said = [f"{value}:{index}" for value, index in zip(highest, indices, strict=True)]
    if len(labels) == width:
        said = [f"{text}:{labels[index]}" for text, index in zip(said, indices, strict=True)]
    result = np.empty(len(said), object)
    result[:] = said
    return result.reshape(rows, count)


def _ranked_as(values: Array, name: str) -> Array:
    """Return ``(rows, values of a row)`` of a type that numpy sorts and JSON can say."""
    rows = values.shape[0]
    table = values.reshape(rows, -1) if values.size else values.reshape(rows, 0)
    if table.dtype.kind == "b":
        return table.view(np.uint8)
    if table.dtype.kind in "iu":
        return table
    table = table if table.dtype == np.float64 else table.astype(np.float32)
    if not np.isfinite(table).all():
        raise NonFiniteOutputError.of_output(name)
    return table


def _written(values: Array) -> list[str]:
    """Write numbers as the JSON of a reply would, twenty times as fast as one by one."""
    flat = np.ascontiguousarray(values).ravel()
    text = orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return text[1:-1].split(",") if flat.size else []
