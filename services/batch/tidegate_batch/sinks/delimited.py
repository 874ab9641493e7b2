"""CSV as output: a header, then a line for each row; a list is one field of JSON text."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pc

from tidegate_batch.ports import EncodedRows
from tidegate_batch.sinks.plain import plain_column


class CsvSink:
    """Encodes a chunk's rows in memory.

    A missing value is an empty field, an empty string is ``""``.
    """

    def encode(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> EncodedRows:
        """Write the header and the rows; metadata of the schema has no place in it."""
        rows = [self._flat(batch) for batch in batches]
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        table = pa.Table.from_batches(rows or [self._flat(empty)])
        stream = pa.BufferOutputStream()
        pc.write_csv(table, stream)
        return EncodedRows(body=stream.getvalue().to_pybytes(), rows=table.num_rows)

    def _flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_as_field(plain_column(column)) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _as_field(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Write what a field cannot hold, a list or a struct, as JSON."""
    if not pa.types.is_nested(column.type):
        return column
    texts = [
        None if value is None else msgspec.json.encode(value).decode()
        for value in column.to_pylist()
    ]
    return pa.array(texts, type=pa.string())
