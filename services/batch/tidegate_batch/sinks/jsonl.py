"""JSON Lines as output: one object a line, numbers with all their digits."""

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from tidegate_batch.ports import EncodedRows
from tidegate_batch.sinks.plain import plain_column

_ENCODER = msgspec.json.Encoder(decimal_format="string")


class JsonLinesSink:
    """Encodes a chunk's rows in memory.

    JSON knows neither NaN nor infinity: copied values of that kind become ``null``.
    """

    def encode(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> EncodedRows:
        """Write each row as a line; metadata of the schema has no place in it."""
        rows, body = 0, bytearray()
        for batch in batches:
            columns = [plain_column(column).to_pylist() for column in batch.columns]
            names = batch.schema.names
            lines = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            body += _ENCODER.encode_lines(lines)
            rows += batch.num_rows
        return EncodedRows(body=bytes(body), rows=rows)
