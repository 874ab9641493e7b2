"""Between Arrow's columns and numpy's arrays, without a loop over rows."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.inference.arrays import Array
from tidegate.tensors.signature import SignatureMismatchError


def to_numpy(column: "pa.Array[Any]", *, name: str) -> Array:
    """Turn a column into what ``Model.tensors_from_columns`` reads.

    Numbers without missing values are not copied. Missing values are NaN among floats and
    ``None`` in object arrays of everything else; text is an object array of ``str``.

    Args:
        column: Numbers, booleans, text, or lists of them that all have one length.
        name: The column's name, for the error.

    Returns:
        An array ``(rows,)``, or ``(rows, …)`` for lists.

    Raises:
        SignatureMismatchError: Lists differ in length, or one is missing; text is no UTF-8.
    """
    column = decoded(column)
    if _is_list(column.type):
        return _stack(column, name=name)
    if pa.types.is_integer(column.type) and column.null_count:  # Arrow would make floats of them
        values: Array = column.fill_null(0).to_numpy(zero_copy_only=False).astype(object)
        values[column.is_null().to_numpy(zero_copy_only=False)] = None
        return values
    try:
        return column.to_numpy(zero_copy_only=False)
    except (pa.ArrowException, UnicodeDecodeError) as error:  # of numbers it never happens
        raise _no_text(name) from error


def decoded(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Undo a dictionary, which each batch may have another of, and which slices keep whole."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def require_text(column: "pa.Array[Any]", *, name: str) -> None:
    """Make sure that a column's text is text, which files do not.

    Args:
        column: Of any type; only text is looked at.
        name: The column's name, for the error.

    Raises:
        SignatureMismatchError: A value is no UTF-8.
    """
    column = decoded(column)
    if not is_text(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _no_text(name) from error


def _no_text(name: str) -> SignatureMismatchError:
    return SignatureMismatchError.of_input(
        name, expected="text in UTF-8", found="bytes that are none"
    )


def is_text(kind: pa.DataType) -> bool:
    """Say whether values of a type are text, be it by way of a dictionary."""
    if isinstance(kind, pa.DictionaryType):
        return is_text(kind.value_type)
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _stack(column: "pa.Array[Any]", *, name: str) -> Array:
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if column.null_count or len(lengths) != 1:
        raise SignatureMismatchError.of_input(
            name,
            expected="a list in every row, all of one length",
            found=f"the lengths {lengths[:5]} (None is a missing list)",
        )
    values = to_numpy(column.flatten(), name=name)  # type: ignore[attr-defined] # every list array has it
    return values.reshape(len(column), lengths[0], *values.shape[1:])


def to_arrow(values: Array, kind: pa.DataType) -> "pa.Array[Any]":
    """Turn one output into a column; numbers are not copied where the types agree.

    Args:
        values: An array ``(rows, …)``: scalars, or nested lists of one length each.
        kind: The column's type, as ``arrow_type`` gave it.
    """
    if not isinstance(kind, pa.ListType):
        return pa.array(np.ascontiguousarray(values), type=kind)
    rows, length = values.shape[:2]
    flat = to_arrow(values.reshape(rows * length, *values.shape[2:]), kind.value_type)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length, type=pa.int32())
    lists: pa.Array[Any] = pa.ListArray.from_arrays(offsets, flat, type=kind)
    return lists


def arrow_type(values: Array) -> pa.DataType:
    """Return the column type for an output like this; one more list for each axis after rows."""
    if values.ndim > 1:
        item = arrow_type(values[:, 0] if values.shape[1] else values.reshape(-1))
        return pa.list_(pa.field("element", item))  # as Parquet names it
    if values.dtype == np.float16:
        return pa.float32()  # few readers know half floats; every half float is a float
    return pa.string() if values.dtype.kind in "OU" else pa.from_numpy_dtype(values.dtype)
