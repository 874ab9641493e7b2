"""Parquet files as output: zstd, one row group a chunk, encodings by kind of column."""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_batch.ports import EncodedRows

_COMPRESSION: Final = "zstd"
_ROW_INDEX: Final = "_row_index"


class ParquetSink:
    """Encodes a chunk's rows in memory: a chunk is small, and then its digest is known too."""

    def encode(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> EncodedRows:
        """Write all batches as one row group."""
        stream = pa.BufferOutputStream()
        table = pa.Table.from_batches(list(batches), schema=schema)
        with pq.ParquetWriter(
            stream,
            schema,
            compression=_COMPRESSION,
            use_dictionary=[field.name for field in schema if _has_few_values(field)],  # type: ignore[arg-type] # the stubs know only a flag
            column_encoding={_ROW_INDEX: "DELTA_BINARY_PACKED"},
        ) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        return EncodedRows(body=stream.getvalue().to_pybytes(), rows=table.num_rows)


def _has_few_values(field: "pa.Field[Any]") -> bool:
    """Say whether a dictionary is worth trying.

    Predictions are floats that hardly repeat: Parquet would fill a dictionary, then drop it.
    """
    nested = pa.types.is_nested(field.type)
    return not nested and not pa.types.is_floating(field.type) and field.name != _ROW_INDEX
