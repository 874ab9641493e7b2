"""The columns of the output: kept ones as they were, predictions, and where each row came from.

The schema is fixed before the first row is scored, from the manifest and the input's schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.artifacts.manifest import Manifest
from tidegate.inference.arrays import Array
from tidegate.inference.transforms import build_writer
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import TensorSpec
from tidegate_batch.core.records import OutputColumn, PinnedModel
from tidegate_batch.pipeline.arrays import arrow_type, to_arrow

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
PROVENANCE: Final[dict[str, pa.DataType]] = {
    "_model_name": _TEXT,
    "_model_version": pa.int64(),
    "_model_digest": _TEXT,
    "_job_id": _TEXT,
    "_chunk_id": _TEXT,
    "_source": _TEXT,
    "_row_index": pa.int64(),
}
"""What every row says of itself; text is dictionary-encoded, so a million rows cost next to
nothing. ``_row_index`` counts from 0 within ``_source``."""
DEAD_LETTER_FACTS: Final[dict[str, pa.DataType]] = {
    "_error_code": _TEXT,
    "_error_message": pa.string(),
    "_attempt": _TEXT,
    **PROVENANCE,
    "_was_read": pa.bool_(),
    "_line": pa.int64(),
    "_text": pa.string(),
}
"""What a dead letter says beside the columns that the job reads. Those are all missing in a row
that could not be read at all; ``_line`` and ``_text`` where files have no lines."""


def prediction_types(manifest: Manifest) -> dict[str, pa.DataType]:
    """Return the columns that the model's answers become, in their order.

    The names and types are those of one made-up answer, so that no transform is described twice.
    """
    inputs = {spec.name: _one_row(spec) for spec in manifest.signature.inputs}
    outputs = {spec.name: _one_row(spec) for spec in manifest.signature.outputs}
    presented = build_writer(manifest).present(outputs, inputs)
    return {name: arrow_type(values) for name, values in presented.items()}


def _one_row(spec: TensorSpec) -> Array:
    shape = (1, *(max(size, 1) for size in spec.row_shape))
    return np.zeros(shape, dtype=DATATYPES[spec.datatype].numpy)


def output_schema(manifest: Manifest, input_schema: pa.Schema, *, kept: Sequence[str]) -> pa.Schema:
    """Return the output's columns; ``kept`` ones have the type that they have in the input."""
    fields = [pa.field(name, input_schema.field(name).type) for name in kept]
    predictions = prediction_types(manifest)
    fields += [pa.field(name, kind) for name, kind in predictions.items()]
    fields += [pa.field(name, kind, nullable=False) for name, kind in PROVENANCE.items()]
    return pa.schema(fields)


def described(schema: pa.Schema) -> tuple[OutputColumn, ...]:
    """Name the columns and their types for people and other programs."""
    return tuple(OutputColumn(name=field.name, type=str(field.type)) for field in schema)


def with_facts(schema: pa.Schema, facts: Mapping[str, object]) -> pa.Schema:
    """Put facts about a whole file into its metadata, as ``tidegate.<name>``."""
    return schema.with_metadata({f"tidegate.{name}": str(value) for name, value in facts.items()})


class RowAssembler:
    """Puts the output's columns side by side, for one chunk."""

    def __init__(self, schema: pa.Schema, *, model: PinnedModel, job: str, chunk: str) -> None:
        facts = {"_model_name": model.name, "_model_digest": model.digest}
        facts |= {"_job_id": job, "_chunk_id": chunk}
        self._schema = schema
        self._version = model.version
        self._words = {name: pa.array([value]) for name, value in facts.items()}

    def assemble(
        self,
        kept: pa.RecordBatch,
        answers: Mapping[str, Array],
        *,
        source: str,
        row_index: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        """Build output rows from input rows of one file and the answers to them.

        Args:
            kept: The input rows, with at least the columns to keep.
            answers: One array ``(rows, …)`` per prediction column.
            source: The input file.
            row_index: Where in it each row stands, ``(rows,)``, counted from 0.
        """
        rows = kept.num_rows
        columns: dict[str, pa.Array[Any]] = {
            name: to_arrow(values, self._schema.field(name).type)
            for name, values in answers.items()
        }
        indices = pa.array(np.zeros(rows, dtype=np.int32), type=pa.int32())
        for name, word in {**self._words, "_source": pa.array([source])}.items():
            columns[name] = pa.DictionaryArray.from_arrays(indices, word)
        columns["_model_version"] = pa.array(np.full(rows, self._version))
        columns["_row_index"] = pa.array(row_index)
        return pa.RecordBatch.from_arrays(
            [
                columns[name] if name in columns else kept.column(name)
                for name in self._schema.names
            ],
            schema=self._schema,
        )
