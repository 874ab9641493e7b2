"""Whether a local output has room, told before anything is scored."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Final

import pyarrow as pa

from tidegate.artifacts.manifest import Manifest
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE
from tidegate_batch.core.errors import InputInvalidError, Problem
from tidegate_batch.core.records import JobSpec, PlannedInput
from tidegate_batch.pipeline.expecting import planned_kept, read_schema
from tidegate_batch.pipeline.parts import Parts

_TEXT_ROW_BYTES: Final = 200
"""Of a row of JSON or CSV, for model, job, chunk and source alone; Parquet says them once."""
_COPIED_SHARE: Final = 0.5
"""Of the bytes of columns that are copied: their file may be less well packed than the output."""


def refuse_full_disk(
    spec: JobSpec,
    manifest: Manifest,
    schema: pa.Schema,
    *,
    inputs: Sequence[PlannedInput],
    parts: Parts,
) -> None:
    """Stop a job whose output surely does not fit on its disk.

    The estimate is low on purpose, and a job that passes may still fill the disk: nothing is known
    yet of how well its rows can be compressed.

    Raises:
        InputInvalidError: The disk has less room than the least that the output takes.
    """
    output = spec.request.output
    path = parts.stores(output).local_path("_")
    if path is None:
        return
    rows = sum(planned.rows for planned in inputs)
    needed = rows * _row_bytes(spec, manifest)
    read = read_schema(manifest, schema).names
    copied = len(planned_kept(manifest, schema)) / max(1, len(read))
    needed += int(_COPIED_SHARE * copied * sum(planned.bytes for planned in inputs))
    free = parts.free_bytes(_standing(path.parent))
    if free < needed:
        problem = Problem(
            where=output,
            column=None,
            expected=f"room for at least {_mib(needed)} of predictions",
            found=f"{_mib(free)} free on that disk",
        )
        raise InputInvalidError.of_problems([problem])


def _row_bytes(spec: JobSpec, manifest: Manifest) -> int:
    answers = sum(
        prod(1 if size == VARIABLE else size for size in output.row_shape)
        * (DATATYPES[output.datatype].item_bytes or 1)
        for output in manifest.signature.outputs
    )
    return answers if spec.request.output_format == "parquet" else answers + _TEXT_ROW_BYTES


def _standing(folder: Path) -> Path:
    """Return the deepest folder that exists: the output's own appears with its first file."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"
