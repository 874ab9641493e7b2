"""The ``data`` of a tensor: a JSON list to an array and back, exactly."""

import json
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidegate.oip.errors import MalformedRequestError, NeedsBinaryError
from tidegate.oip.packing import PACKED, UNPACKABLE, pack
from tidegate.oip.shapes import in_figures
from tidegate.tensors.datatypes import DATATYPES

Array = npt.NDArray[Any]

ONLY_BINARY: Final = frozenset({"FP16", "BF16"})
"""Datatypes without a JSON form (protocol, "Tensor Data Types")."""
_TAKES: Final = {"BOOL": "true or false", "BYTES": "strings", "FP32": "numbers", "FP64": "numbers"}
_SHOWN_CHARACTERS: Final = 40


def array_from_json(
    data: list[Any], *, name: str, datatype: str, shape: Sequence[int], booleans: bool
) -> Array:
    """Build a tensor of the protocol's datatype; it may be read-only.

    ``array_from_json(json_from_array(a), …) == a`` for every datatype that JSON can say.

    Args:
        data: Flat, or nested exactly as ``shape`` says; row-major.
        name: What to call the tensor in an error.
        datatype: As on the wire.
        shape: No dimension is negative.
        booleans: Whether the body holds a ``true`` or ``false`` at all. ``struct`` takes them
            for 1 and 0, so that each value must be looked at then; usually there is none.

    Raises:
        NeedsBinaryError: FP16 and BF16.
        MalformedRequestError: An unknown datatype, another number of values, or a value that is
            none of this datatype.
    """
    if datatype not in PACKED and datatype not in _TAKES:
        raise _unknown(name, datatype)
    flat = _flatten(data, shape, name) if data and type(data[0]) is list else data
    if len(flat) != prod(shape):
        raise MalformedRequestError(
            f"{name!r}: the shape {_shown(list(shape))} needs {in_figures(prod(shape))} values, "
            f"and data has {len(flat)}."
        )
    if datatype == "BYTES":
        return _strings(flat, name).reshape(shape)
    if datatype == "BOOL":
        return _booleans(flat, name).reshape(shape)
    if booleans and bool in set(map(type, flat)):
        raise _wrong_value(flat, name, datatype)
    try:
        return pack(flat, datatype, shape)
    except UNPACKABLE as error:
        raise _wrong_value(flat, name, datatype) from error


def json_from_array(values: Array) -> object:
    """Return what ``orjson`` writes as the flat list of a tensor's values.

    Numbers stay an array, which orjson writes five times as fast as a list, and FP32 with as
    many digits as bring the same bits back.
    """
    flat = values.ravel()
    return flat.tolist() if flat.dtype.kind == "O" else flat


def _flatten(data: list[Any], shape: Sequence[int], name: str) -> list[Any]:
    level = [data]
    for size in shape:
        if any(type(values) is not list or len(values) != size for values in level):
            raise MalformedRequestError(
                f"{name!r}: nested data must have the shape {_shown(list(shape))} at every level; "
                "a flat list is accepted too."
            )
        level = list(chain.from_iterable(level))
    return level


def _strings(flat: list[Any], name: str) -> Array:
    if set(map(type, flat)) - {str}:
        raise _wrong_value(flat, name, "BYTES")
    array = np.empty(len(flat), object)
    array[:] = flat
    return array


def _booleans(flat: list[Any], name: str) -> Array:
    if set(map(type, flat)) - {bool}:
        raise _wrong_value(flat, name, "BOOL")
    return np.array(flat, np.bool_)


def _unknown(name: str, datatype: str) -> NeedsBinaryError | MalformedRequestError:
    if datatype in ONLY_BINARY:
        return NeedsBinaryError.of_tensor(name, datatype)
    known = ", ".join(known for known in DATATYPES if known not in ONLY_BINARY)
    return MalformedRequestError(f"{name!r}: {_shown(datatype)} is no datatype; there are {known}.")


def _wrong_value(flat: list[Any], name: str, datatype: str) -> MalformedRequestError:
    """Find the first value that does not fit, and say what would."""
    place, value = next(
        (place, value) for place, value in enumerate(flat) if not _fits(value, datatype)
    )
    takes = _TAKES.get(datatype, "integers")
    is_number = type(value) in {int, float}
    return MalformedRequestError(
        f"{name!r}: value {place} of data is {_shown(value)}, but {datatype} takes {takes}"
        f"{' within its range' if is_number and datatype in PACKED else ''}."
    )


def _fits(value: object, datatype: str) -> bool:
    if datatype not in PACKED:
        return type(value) is (str if datatype == "BYTES" else bool)
    try:
        pack([value], datatype, [1])
    except UNPACKABLE:
        return False
    return type(value) is not bool


def _shown(value: object) -> str:
    """Write a value of the caller's as JSON, cut to a length that a sentence can bear."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
