"""Lists of numbers to tensors at once, exactly.

``struct`` packs a flat list of numbers three times as fast as ``np.array`` reads it, and it is
stricter: ``np.array`` would make 1.5 of "1.5" and NaN of null. Integers never pass through a
float, so the whole INT64 and UINT64 range is exact. It does take ``True`` for 1.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from tidegate.oip.limits import DEFAULT_LIMITS
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature, TensorSpec

Array = npt.NDArray[Any]

_CODES: Final = {
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP32": "f",
    "FP64": "d",
}
PACKED: Final = {name: np.dtype(DATATYPES[name].numpy) for name in _CODES}
"""The datatypes whose values can be packed."""
UNPACKABLE: Final = (struct.error, OverflowError)
"""What ``pack`` raises of a value that is none of the datatype, or beyond its range."""


def pack(values: Sequence[Any], datatype: str, shape: Sequence[int]) -> Array:
    """Build a read-only tensor of a flat list.

    Args:
        values: ``prod(shape)`` of them, row-major.
        datatype: One of ``PACKED``.
        shape: No dimension is negative.

    Raises:
        struct.error, OverflowError: A value does not fit; no list of numbers raises anything else.
    """
    packed = _packer(_CODES[datatype], len(values)).pack(*values)
    return np.ndarray(shape, PACKED[datatype], packed)  # half of frombuffer and reshape


@lru_cache(maxsize=1024)  # a few sizes a model; an entry is some hundred bytes whatever its count
def _packer(code: str, count: int) -> struct.Struct:
    # "<" checks the range of an FP32, which native order does not (1e39 would become infinite).
    return struct.Struct(f"<{count}{code}")


class NumberRows:
    """The rows of a model with one input, if each is a fixed count of numbers."""

    __slots__ = ("_row_shape", "_width", "datatype", "name")

    def __init__(self, spec: TensorSpec) -> None:
        self.name = spec.name
        self.datatype = spec.datatype
        self._row_shape = spec.row_shape
        self._width = prod(spec.row_shape)

    @classmethod
    def of(cls, signature: Signature) -> Self | None:
        """Return them; ``None`` for a model whose rows are something else."""
        if len(signature.inputs) != 1:
            return None
        (spec,) = signature.inputs
        are_fixed = all(size > 0 for size in spec.row_shape)
        can_come = 0 < len(spec.shape) <= DEFAULT_LIMITS.rank and spec.datatype in PACKED
        return cls(spec) if are_fixed and can_come else None

    @property
    def are_flat(self) -> bool:
        """Whether a row is a list of numbers and not one of lists, or a bare number."""
        return len(self._row_shape) == 1

    def pack(self, numbers: Sequence[int | float]) -> Array | None:
        """Build ``(rows, …)`` that fits the signature, of one row behind the other.

        ``None`` if that cannot be: a row is cut short, a number is not of the datatype, or there
        is no row, or more than a request may carry.
        """
        rows, over = divmod(len(numbers), self._width)
        if over or not 0 < rows <= DEFAULT_LIMITS.rows:
            return None
        try:
            return pack(numbers, self.datatype, (rows, *self._row_shape))
        except UNPACKABLE:
            return None

    def pack_each(self, rows: Sequence[Sequence[int | float]]) -> Array | None:
        """Do the same with a list for each row, where rows are flat."""
        if not 0 < len(rows) <= DEFAULT_LIMITS.rows:
            return None
        packer = _packer(_CODES[self.datatype], self._width)
        try:
            packed = b"".join([packer.pack(*row) for row in rows])
        except UNPACKABLE:  # also where a row has another length
            return None
        return np.ndarray((len(rows), *self._row_shape), PACKED[self.datatype], packed)
