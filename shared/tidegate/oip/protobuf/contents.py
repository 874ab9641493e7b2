"""The typed contents of a tensor: one field of a message for each family of datatypes.

Raw contents are the bytes of ``tidegate.oip.binary`` and need nothing of this. Typed ones take a
Python object for each value, as JSON does, so that as many are accepted as of JSON.
"""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from tidegate.oip.binary import text_array
from tidegate.oip.errors import MalformedRequestError, NeedsBinaryError
from tidegate.oip.limits import WireLimits
from tidegate.oip.protobuf.v2_pb2 import InferTensorContents
from tidegate.oip.shapes import check_elements
from tidegate.oip.values import ONLY_BINARY, Array
from tidegate.tensors.datatypes import DATATYPES

FIELDS: Final = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Every datatype but the 16-bit floats, which have no field."""


def array_from_contents(
    contents: InferTensorContents,
    *,
    name: str,
    datatype: str,
    shape: Sequence[int],
    limits: WireLimits,
) -> Array:
    """Read a tensor.

    Args:
        contents: Holds the field of this datatype, and no other.
        name: What to call the tensor in an error.
        datatype: As on the wire.
        shape: ``check_shape`` has passed it.
        limits: Of the values, and of an item's length.

    Raises:
        NeedsBinaryError: A 16-bit float.
        MalformedRequestError: The datatype does not exist, the values are in another's field, are
            another number of them, or are beyond its range.
        TooManyElementsError: It is sound, but too large.
    """
    field = _field(name, datatype)
    others = [
        descriptor.name for descriptor, _ in contents.ListFields() if descriptor.name != field
    ]
    if others:
        raise MalformedRequestError(
            f"{name!r}: {datatype} is sent in {field}, and it has {' and '.join(others)}."
        )
    values = getattr(contents, field)
    if len(values) != prod(shape):
        raise MalformedRequestError(
            f"{name!r}: {field} has {len(values)} values, and its shape asks for another number."
        )
    check_elements(name, len(values), limits.items)
    if datatype == "BYTES":
        return text_array(values, name=name, limits=limits).reshape(shape)
    return _numbers(values, name, datatype).reshape(shape)


def write_contents(values: Array, datatype: str, contents: InferTensorContents) -> None:
    """Put a tensor into a message; no 16-bit float.

    ``array_from_contents`` brings the same values back.
    """
    flat = values.ravel().tolist()
    if datatype == "BYTES":
        flat = [item.encode() if isinstance(item, str) else item for item in flat]
    getattr(contents, FIELDS[datatype]).extend(flat)


def _field(name: str, datatype: str) -> str:
    field = FIELDS.get(datatype)
    if field is not None:
        return field
    if datatype in ONLY_BINARY:
        raise NeedsBinaryError(
            f"{name!r} is {datatype}, for which there are no typed contents: send the tensors of "
            "this request in raw_input_contents."
        )
    raise MalformedRequestError(
        f"{name!r}: {datatype[:40]!r} is no datatype; there are {', '.join(DATATYPES)}."
    )


def _numbers(values: Sequence[float], name: str, datatype: str) -> Array:
    dtype = np.dtype(DATATYPES[datatype].numpy)
    if dtype.kind not in "iu" or dtype.itemsize >= np.dtype(np.int32).itemsize:
        return np.fromiter(values, dtype, len(values))
    wide = np.fromiter(values, np.int64, len(values))
    narrow = wide.astype(dtype)
    if not np.array_equal(narrow, wide):
        raise MalformedRequestError(f"{name!r}: a value is beyond the range of {datatype}.")
    return narrow
