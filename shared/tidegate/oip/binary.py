"""Tensors as raw bytes: little-endian, row-major; the same in the HTTP extension and in gRPC.

https://github.com/triton-inference-server/server, "Binary Tensor Data Extension". BOOL is one byte,
0 or 1. An item of BYTES is its length, a 32-bit number, and then its bytes; they are UTF-8 here,
because that is what an ONNX string is.
"""

import struct
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegate.oip.errors import BinaryLayoutError, MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.shapes import check_elements, in_figures
from tidegate.tensors.datatypes import DATATYPES

Array = npt.NDArray[Any]

_LENGTH: Final = struct.Struct("<I")
_DTYPES: Final = {
    name: np.dtype(datatype.numpy) for name, datatype in DATATYPES.items() if datatype.item_bytes
}


def array_from_bytes(
    blob: bytes | memoryview,
    *,
    name: str,
    datatype: str,
    shape: Sequence[int],
    limits: WireLimits = DEFAULT_LIMITS,
) -> Array:
    """Read a tensor, without a copy except for BYTES.

    ``array_from_bytes(bytes_from_array(a), …)`` has the bits of ``a``, whatever they are: NaN and
    infinity pass.

    Args:
        blob: Of the tensor alone. It lives as long as the array, which is a read-only view of it,
            aligned or not.
        name: What to call the tensor in an error.
        datatype: As on the wire.
        shape: ``check_shape`` has passed it.
        limits: Of its values, and of an item's length.

    Raises:
        BinaryLayoutError: The bytes are not exactly those of such a tensor.
        MalformedRequestError: The datatype does not exist, or an item is too long.
        TooManyElementsError: It is sound, but too large.
    """
    if datatype == "BYTES":
        return _strings(blob, name, shape, limits)
    dtype = _DTYPES.get(datatype)
    if dtype is None:
        raise MalformedRequestError(
            f"{name!r}: {datatype[:40]!r} is no datatype; there are {', '.join(DATATYPES)}."
        )
    elements = prod(shape)
    if elements * dtype.itemsize != len(blob):
        raise BinaryLayoutError(
            f"{name!r}: {in_figures(elements)} of {datatype} are "
            f"{in_figures(elements * dtype.itemsize)} bytes, and it has {len(blob)}."
        )
    check_elements(name, elements, limits.elements)
    array: Array = np.ndarray(shape, dtype, blob)
    if datatype == "BOOL" and elements and array.view(np.uint8).max() > 1:
        raise BinaryLayoutError(f"{name!r}: a byte of a BOOL tensor is neither 0 nor 1.")
    return array


def bytes_from_array(values: Array) -> memoryview:
    """Return the bytes of a tensor, ``len(…)`` of them; a copy only where they are not in order."""
    if values.dtype.kind == "O":
        return memoryview(b"".join(_items(values)))
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _strings(
    blob: bytes | memoryview, name: str, shape: Sequence[int], limits: WireLimits
) -> Array:
    """Walk the items; the bytes of their lengths alone bound how many there can be."""
    elements, end = prod(shape), len(blob)
    if elements * _LENGTH.size > end:
        raise BinaryLayoutError(
            f"{name!r}: {in_figures(elements)} items need 4 bytes each for their lengths alone, "
            f"and it has {end} bytes."
        )
    check_elements(name, elements, limits.texts)
    blob = bytes(blob)  # a slice of bytes is made four times as fast as one of a view
    items: list[bytes] = []
    place = 0
    for _ in range(elements):
        begin = place + _LENGTH.size
        place = begin + _LENGTH.unpack_from(blob, place)[0] if begin <= end else begin
        if place > end:
            raise BinaryLayoutError(f"{name!r}: item {len(items)} goes beyond its bytes.")
        items.append(blob[begin:place])
    if place != end:
        raise BinaryLayoutError(
            f"{name!r}: its {elements} items end {end - place} bytes before its bytes do."
        )
    return text_array(items, name=name, limits=limits).reshape(shape)


def text_array(
    items: Sequence[bytes | memoryview], *, name: str, limits: WireLimits = DEFAULT_LIMITS
) -> Array:
    """Make a flat BYTES tensor of its items.

    Raises:
        MalformedRequestError: One is too long, or no UTF-8.
    """
    if items and max(map(len, items)) > limits.item_bytes:
        raise MalformedRequestError(f"{name!r}: an item is longer than {limits.item_bytes} bytes.")
    texts: list[str] = []
    try:
        for item in items:
            texts.append(str(item, "utf-8"))  # noqa: PERF401 - its length tells which one failed
    except UnicodeDecodeError as error:
        raise MalformedRequestError(f"{name!r}: item {len(texts)} is no UTF-8 text.") from error
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def _items(values: Array) -> Iterator[bytes]:
    for value in values.ravel():
        item = value.encode() if isinstance(value, str) else value
        yield _LENGTH.pack(len(item))
        yield item
