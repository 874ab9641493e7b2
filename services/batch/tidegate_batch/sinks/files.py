"""Files of every format as one sink of rows."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from tidegate_batch.core.formats import OutputFormat
from tidegate_batch.ports import EncodedRows
from tidegate_batch.sinks.delimited import CsvSink
from tidegate_batch.sinks.jsonl import JsonLinesSink
from tidegate_batch.sinks.parquet import ParquetSink

_SINKS: Final[dict[OutputFormat, ParquetSink | JsonLinesSink | CsvSink]] = {
    "parquet": ParquetSink(),
    "jsonl": JsonLinesSink(),
    "csv": CsvSink(),
}


class FileSink:
    """Encodes a chunk's rows in memory: a chunk is small, and then its digest is known too."""

    def encode(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, kind: OutputFormat
    ) -> EncodedRows:
        """Write rows as one file of a format."""
        return _SINKS[kind].encode(schema, batches)
