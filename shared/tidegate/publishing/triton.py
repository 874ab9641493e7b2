"""``config.pbtxt``: lets a Triton server be pointed at the same ``models/`` folder.

``version_policy`` names the published versions, so that it never loads a half-published folder.
Format: Triton Inference Server, "Model Configuration".
"""

import json
import re
import secrets
from collections.abc import Iterable

from tidegate.artifacts.layout import config_key
from tidegate.artifacts.manifest import Manifest
from tidegate.artifacts.store import ArtifactStore
from tidegate.errors import PartUnavailableError
from tidegate.ids import ModelName, Version
from tidegate.objects.port import StoredObject, Written
from tidegate.tensors.signature import TensorSpec

_TYPES = {"BOOL": "TYPE_BOOL", "BYTES": "TYPE_STRING"}
_REVISION = re.compile(rb"# tidegate revision ([0-9]{1,18}) ")
_MAX_BATCH_ROWS = 4096
"""What the gateway allows in one request; Triton's own batcher stays below it."""
_MOST_TRIES = 64
"""Each lost try means that another publisher succeeded; this many at once is a fault."""


def refresh_config(store: ArtifactStore, name: ModelName) -> None:
    """Write the configuration for what is published now, from a fresh listing, until it stands.

    Raises:
        PartUnavailableError: The store kept refusing the write.
    """
    for _ in range(_MOST_TRIES):
        now = store.objects.get(config_key(name))
        versions = store.versions(name)
        newest = store.published(name, versions[-1]).manifest
        revision = _revision_of(now) + 1
        body = render_config(newest, versions, revision=revision, write_id=secrets.token_hex(16))
        if _write(store, name, now, body):
            return
    raise PartUnavailableError(
        f"{config_key(name)} in {store.objects.url} was refused {_MOST_TRIES} times."
    )


def _write(store: ArtifactStore, name: ModelName, now: StoredObject | None, body: bytes) -> bool:
    if now is None:
        return isinstance(store.objects.put_if_absent(config_key(name), body), Written)
    return isinstance(store.objects.replace(config_key(name), body, etag=now.etag), Written)


def _revision_of(stored: StoredObject | None) -> int:
    found = _REVISION.search(stored.body) if stored else None
    return int(found[1]) if found else 0


def render_config(
    manifest: Manifest, versions: Iterable[Version], *, revision: int, write_id: str
) -> bytes:
    """Describe the newest version's tensors, and which versions may be loaded."""
    free = manifest.batch_axis == "free"
    lines = [
        f"# tidegate revision {revision} {write_id}",
        "# Generated from the published versions; changes made by hand are lost.",
        f"name: {json.dumps(manifest.name)}",
        'platform: "onnxruntime_onnx"',
        f"max_batch_size: {_MAX_BATCH_ROWS if free else 0}",
        *(f"input [ {_tensor(spec, free=free)} ]" for spec in manifest.signature.inputs),
        *(f"output [ {_tensor(spec, free=free)} ]" for spec in manifest.signature.outputs),
        f"version_policy: {{ specific: {{ versions: {list(versions)} }} }}",
    ]
    return "\n".join(lines).encode() + b"\n"


def _tensor(spec: TensorSpec, *, free: bool) -> str:
    """With a free batch axis Triton leaves the rows out of ``dims``."""
    datatype = _TYPES.get(spec.datatype, f"TYPE_{spec.datatype}")
    dims = list(spec.row_shape if free else spec.shape)
    return f"{{ name: {json.dumps(spec.name)} data_type: {datatype} dims: {dims} }}"
