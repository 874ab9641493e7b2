"""Rows of several files in one table, where a column may have another type in each."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Put tables together, one after the other."""
    schema = common_schema(table.schema for table in tables)
    return pa.concat_tables([fitted(table, schema) for table in tables])


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return columns that can hold the values of all schemas, in the order of their appearance.

    Numbers become the wider of two types, as do lists and long texts. Where no type holds the
    values of two, it is text, and they are to be written as JSON.
    """
    kinds: dict[str, dict[pa.DataType, None]] = {}
    for schema in schemas:
        for field in schema:
            kinds.setdefault(field.name, {})[field.type] = None
    return pa.schema([pa.field(name, _common_type(list(some))) for name, some in kinds.items()])


def _common_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    if not kinds[1:]:
        return kinds[0]
    if pa.uint64() in kinds and any(pa.types.is_signed_integer(kind) for kind in kinds):
        return pa.string()  # Arrow would make it int64, which is too narrow
    schemas = [pa.schema([pa.field("x", kind)]) for kind in kinds]
    try:
        kind: pa.DataType = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return pa.string()
    return kind


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a common schema of its own and others."""
    columns = [_fitted(table, field.name, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(table: pa.Table, name: str, kind: pa.DataType) -> "pa.ChunkedArray[Any]":
    if name not in table.schema.names:
        return pa.chunked_array([pa.array([None] * table.num_rows, type=kind)])
    column = table.column(name)
    if column.type == kind:
        return column
    if kind == pa.string() and not pa.types.is_string_view(column.type):
        return pa.chunked_array([pa.array(map(_as_json, column.to_pylist()), type=kind)])
    return column.cast(kind, safe=False)  # an integer beyond 2**53 among floats is a float


def _as_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, default=str)
