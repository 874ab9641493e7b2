"""Arrays of every kind that people hold, as the tensors of the protocol."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegate.tensors.datatypes import DATATYPES

Array = npt.NDArray[Any]

_BY_NUMPY: Final = {
    np.dtype(datatype.numpy): name
    for name, datatype in DATATYPES.items()
    if datatype.item_bytes is not None
}
_TEXT: Final = "USO"
"""Kinds of numpy arrays that travel as BYTES: text, bytes, and objects that are either."""


def as_tensor(array: Array) -> tuple[str, Array]:
    """Name an array's type as the protocol does, and bring it into the form that is sent.

    Raises:
        ValueError: The protocol has no such type, or an object is neither text nor bytes.
    """
    if array.dtype.kind in _TEXT:
        items = array.astype(object, copy=False)
        others = {type(item).__name__ for item in items.flat if not isinstance(item, (str, bytes))}
        if others:
            raise ValueError(f"{', '.join(sorted(others))} is neither text nor bytes")
        return "BYTES", items
    native = array.dtype.newbyteorder("=")
    name = _BY_NUMPY.get(native)
    if name is None:
        known = ", ".join(str(dtype) for dtype in _BY_NUMPY)
        raise ValueError(f"{array.dtype} does not travel; convert it to text or one of {known}")
    return name, array.astype(native, copy=False)
