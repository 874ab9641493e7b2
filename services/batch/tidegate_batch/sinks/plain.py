"""Columns as text formats can hold them: words written out, times as ISO 8601, bytes as base64."""

import base64
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def plain_column(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return a column of numbers, booleans, strings, lists or structs, with the same values.

    Decimals and times become strings, since JSON has neither; bytes become base64.
    """
    kind = column.type
    if isinstance(kind, pa.DictionaryType):
        return plain_column(column.dictionary_decode())  # type: ignore[attr-defined] # a dictionary has it
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_other_binary(kind):
        values = column.to_pylist()
        texts = [None if value is None else base64.b64encode(value).decode() for value in values]
        return pa.array(texts, type=pa.string())
    return column


def _is_other_binary(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind)
