"""The shape in which tensors travel between transforms, runners and backends."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Any numpy array; which datatype it holds is said by the signature."""
Tensors: TypeAlias = Mapping[str, Array]
"""One array ``(rows, …)`` per name; all have the same number of rows."""


def padded(tensors: Tensors, *, by_rows: int) -> dict[str, Array]:
    """Lengthen a batch for a model that takes a fixed number of rows, by repeating the last one.

    A made-up row might be something that the model cannot read; this one it is known to take.
    """
    return {
        name: np.concatenate([values, np.repeat(values[-1:], by_rows, axis=0)])
        for name, values in tensors.items()
    }
