"""From checked inputs to ``plan.json``, and whether a stored plan still says what is there."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import pyarrow as pa

from tidegate.artifacts.manifest import Manifest
from tidegate_batch.core.errors import JobConflictError
from tidegate_batch.core.fingerprint import CHUNKER_VERSION, Fingerprint, digest_of_pairs
from tidegate_batch.core.formats import TEXT_FORMATS
from tidegate_batch.core.planning import Mark, RowGroup, marks_for, plan_chunks
from tidegate_batch.core.records import JobSpec, OutputColumn, Plan, PlannedInput
from tidegate_batch.pipeline.expecting import planned_kept, read_schema, text_schema
from tidegate_batch.pipeline.output import described, output_schema
from tidegate_batch.pipeline.parts import Parts, pinned_manifest
from tidegate_batch.pipeline.reaching import reach_inputs
from tidegate_batch.pipeline.room import refuse_full_disk
from tidegate_batch.pipeline.unique import refuse_duplicate_keys
from tidegate_batch.pipeline.validating import (
    CheckedInputs,
    check_inputs,
    index_inputs,
    kept_columns,
)
from tidegate_batch.ports import FoundInput

_CONCURRENT_HEADS: Final = 16


def make_plan(spec: JobSpec, *, parts: Parts, store_url: str) -> Plan:
    """Check every input and cut it into chunks.

    Raises:
        InputInvalidError: With every problem that was found.
        StoreUnavailableError: An input cannot be reached, or not soon enough.
    """
    manifest = pinned_manifest(parts, store_url, spec.model)
    reach_inputs(spec.request.inputs, stores=parts.stores)
    checked = check_inputs(spec.request, manifest, parts.source)
    groups = index_inputs(checked.files, parts.source)
    chunks = plan_chunks(groups, chunk_rows=spec.request.chunk_rows)
    inputs = _planned_inputs(checked, groups, marks_for(groups, chunks))
    refuse_full_disk(spec, manifest, checked.schema, inputs=inputs, parts=parts)
    if spec.request.unique_key:
        refuse_duplicate_keys(spec.request.key, checked.schema, inputs=inputs, source=parts.source)
    columns = described(checked.schema)
    return Plan(
        job=spec.job,
        created_at=parts.now(),
        inputs=inputs,
        chunks=chunks,
        rows=sum(planned.rows for planned in inputs),
        columns=columns,
        arrow_schema=base64.b64encode(checked.schema.serialize().to_pybytes()).decode(),
        fingerprint=_fingerprint(
            spec, manifest, columns, inputs, {planned.source: planned.etag for planned in inputs}
        ),
    )


def planned_schema(plan: Plan) -> pa.Schema:
    """Return the output's schema as it was fixed before the first row."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(plan.arrow_schema)))


def refuse_changes(spec: JobSpec, plan: Plan, *, parts: Parts, store_url: str) -> None:
    """Make sure that going on would add rows of the same kind to those that are committed.

    Raises:
        JobConflictError: The fingerprint differs; the message says which part, or which files.
    """
    etags = _etags_now(plan, parts)
    changed = [planned.source for planned in plan.inputs if etags[planned.source] != planned.etag]
    if changed:
        more = f" and {len(changed) - 1} more" if changed[1:] else ""
        raise JobConflictError(
            f"job {spec.job} cannot go on: the input {changed[0]}{more} changed or went away "
            "after it was planned. Restore it, or submit a new job on what is there now."
        )
    manifest = pinned_manifest(parts, store_url, spec.model)
    columns = described(_schema_now(spec, plan, manifest, parts)) if plan.inputs else plan.columns
    now = _fingerprint(spec, manifest, columns, plan.inputs, etags)
    if differences := plan.fingerprint.differences(now):
        raise JobConflictError(
            f"job {spec.job} cannot go on: {'; '.join(differences)}. Use the Tidegate that "
            "planned it, or submit a new job."
        )


def _planned_inputs(
    checked: CheckedInputs,
    groups: Sequence[Sequence[RowGroup]],
    marks: Sequence[tuple[Mark, ...]],
) -> tuple[PlannedInput, ...]:
    return tuple(
        PlannedInput(
            source=found.source,
            store=found.store,
            key=found.key,
            etag=found.etag,
            bytes=found.size_bytes,
            rows=sum(group.rows for group in groups[place]),
            format=found.format,
            marks=marks[place],
        )
        for place, (found, _) in enumerate(checked.files)
    )


def _fingerprint(
    spec: JobSpec,
    manifest: Manifest,
    columns: Iterable[OutputColumn],
    inputs: Sequence[PlannedInput],
    etags: Mapping[str, str],
) -> Fingerprint:
    transforms = msgspec.json.encode(manifest.transforms, order="sorted")
    return Fingerprint.of(
        _formats(spec, inputs)
        | {
            "model": spec.model,
            "digest": spec.model.digest,
            "transforms": hashlib.sha256(transforms).hexdigest(),
            "inputs": digest_of_pairs((p.source, etags[p.source]) for p in inputs),
            "output columns": digest_of_pairs((column.name, column.type) for column in columns),
            "chunk rows": spec.request.chunk_rows,
            "chunker": CHUNKER_VERSION,
        }
    )


def _formats(spec: JobSpec, inputs: Sequence[PlannedInput]) -> dict[str, object]:
    """Name the formats, unless all is Parquet, as it was when fingerprints did not name them."""
    read = sorted({planned.format for planned in inputs})
    named = f"{', '.join(read)} to {spec.request.output_format}"
    return {} if named in {"parquet to parquet", " to parquet"} else {"formats": named}


def _etags_now(plan: Plan, parts: Parts) -> dict[str, str]:
    def etag(planned: PlannedInput) -> str:
        head = parts.stores(planned.store).head(planned.key)
        return head.etag if head else "missing"

    with ThreadPoolExecutor(_CONCURRENT_HEADS) as threads:
        etags = threads.map(etag, plan.inputs)
        return {planned.source: now for planned, now in zip(plan.inputs, etags, strict=True)}


def _schema_now(spec: JobSpec, plan: Plan, manifest: Manifest, parts: Parts) -> pa.Schema:
    """Build the output's schema anew, as this release of Tidegate does.

    The types of a text file's columns were settled when the job was planned.
    """
    first = plan.inputs[0]
    if first.format in TEXT_FORMATS:
        planned = read_schema(manifest, planned_schema(plan))
        kept = planned_kept(manifest, planned_schema(plan))
        return output_schema(manifest, planned, kept=kept)
    found = FoundInput(
        source=first.source,
        store=first.store,
        key=first.key,
        etag=first.etag,
        size_bytes=first.bytes,
        format=first.format,
    )
    schema = parts.source.describe(found, wanted=text_schema(manifest)).schema
    return output_schema(manifest, schema, kept=kept_columns(spec.request, manifest, schema))
