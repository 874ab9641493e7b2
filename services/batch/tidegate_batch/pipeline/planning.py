"""From checked inputs to ``plan.json``, and whether a stored plan still says what is there."""

import base64
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import pyarrow as pa

from tidegate.artifacts.manifest import Manifest
from tidegate_batch.core.errors import JobConflictError
from tidegate_batch.core.fingerprint import CHUNKER_VERSION, Fingerprint, digest_of_pairs
from tidegate_batch.core.planning import plan_chunks
from tidegate_batch.core.records import JobSpec, OutputColumn, Plan, PlannedInput
from tidegate_batch.pipeline.output import described, output_schema
from tidegate_batch.pipeline.parts import Parts, pinned_manifest
from tidegate_batch.pipeline.validating import CheckedInputs, check_inputs, kept_columns
from tidegate_batch.ports import FoundInput

_CONCURRENT_HEADS: Final = 16


def make_plan(spec: JobSpec, *, parts: Parts, store_url: str) -> Plan:
    """Check every input and cut it into chunks.

    Raises:
        InputInvalidError: With every problem that was found.
    """
    manifest = pinned_manifest(parts, store_url, spec.model)
    checked = check_inputs(spec.request, manifest, parts.source)
    groups = [shape.row_groups for _, shape in checked.files]
    inputs = _planned_inputs(checked)
    columns = described(checked.schema)
    return Plan(
        job=spec.job,
        created_at=parts.now(),
        inputs=inputs,
        chunks=plan_chunks(groups, chunk_rows=spec.request.chunk_rows),
        rows=sum(planned.rows for planned in inputs),
        columns=columns,
        arrow_schema=base64.b64encode(checked.schema.serialize().to_pybytes()).decode(),
        fingerprint=_fingerprint(
            spec, manifest, columns, ((planned.source, planned.etag) for planned in inputs)
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
    now = _fingerprint(spec, manifest, columns, etags.items())
    if differences := plan.fingerprint.differences(now):
        raise JobConflictError(
            f"job {spec.job} cannot go on: {'; '.join(differences)}. Use the Tidegate that "
            "planned it, or submit a new job."
        )


def _planned_inputs(checked: CheckedInputs) -> tuple[PlannedInput, ...]:
    return tuple(
        PlannedInput(
            source=found.source,
            store=found.store,
            key=found.key,
            etag=found.etag,
            bytes=found.size_bytes,
            rows=shape.rows,
        )
        for found, shape in checked.files
    )


def _fingerprint(
    spec: JobSpec,
    manifest: Manifest,
    columns: Iterable[OutputColumn],
    etags: Iterable[tuple[str, str]],
) -> Fingerprint:
    transforms = msgspec.json.encode(manifest.transforms, order="sorted")
    return Fingerprint.of(
        {
            "model": spec.model,
            "digest": spec.model.digest,
            "transforms": hashlib.sha256(transforms).hexdigest(),
            "inputs": digest_of_pairs(etags),
            "output columns": digest_of_pairs((column.name, column.type) for column in columns),
            "chunk rows": spec.request.chunk_rows,
            "chunker": CHUNKER_VERSION,
        }
    )


def _etags_now(plan: Plan, parts: Parts) -> dict[str, str]:
    def etag(planned: PlannedInput) -> str:
        head = parts.stores(planned.store).head(planned.key)
        return head.etag if head else "missing"

    with ThreadPoolExecutor(_CONCURRENT_HEADS) as threads:
        etags = threads.map(etag, plan.inputs)
        return {planned.source: now for planned, now in zip(plan.inputs, etags, strict=True)}


def _schema_now(spec: JobSpec, plan: Plan, manifest: Manifest, parts: Parts) -> pa.Schema:
    first = plan.inputs[0]
    found = FoundInput(
        source=first.source,
        store=first.store,
        key=first.key,
        etag=first.etag,
        size_bytes=first.bytes,
    )
    schema = parts.source.describe(found).schema
    return output_schema(manifest, schema, kept=kept_columns(spec.request, manifest, schema))
