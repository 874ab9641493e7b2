"""Publishing one version: claim a number, write the files, and let the manifest make it exist.

The order is the safety: a killed publish leaves a claimed number and perhaps some files, which
nobody reads, because a version without a manifest does not exist. A claimed number is never used
again, so that no two publishers ever write into one folder.
"""

import math
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from tidegate.artifacts.layout import (
    claim_key,
    manifest_key,
    model_prefix,
    version_of_key,
    version_prefix,
)
from tidegate.artifacts.manifest import (
    MODEL_FILE,
    BatchInvariance,
    FileEntry,
    Manifest,
    PublishedVersion,
    TransformSpec,
    dump_manifest,
)
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock import WallClock
from tidegate.errors import ArtifactError, SettingError, TidegateError
from tidegate.ids import Alias, ModelName, ModelTag, Version, digest_of
from tidegate.inference.runner import ModelRunner
from tidegate.objects.port import ObjectStore, Refused
from tidegate.publishing.graph import external_files, read_graph
from tidegate.publishing.transform_checks import TOKENIZER_FILE, complete_transform
from tidegate.publishing.transform_file import read_transform
from tidegate.publishing.trial import try_model
from tidegate.publishing.triton import refresh_config

DEFAULT_TOLERANCE = 1e-5
"""Absolute; float32 sums in another order differ by about 1e-7 of their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What somebody wants to publish."""

    name: ModelName
    file: Path
    """An ONNX model; weights outside the file lie beside it."""
    transform: Path | None = None
    """A transform.toml."""
    alias: Alias | None = None
    """Moved to the new version once that exists."""
    tolerance: float = DEFAULT_TOLERANCE
    """How far a row's answer may depend on its batch-mates, absolute. At least 0, and finite."""

    def __post_init__(self) -> None:
        """Refuse what a manifest cannot say: JSON has neither NaN nor infinity.

        Raises:
            SettingError: The tolerance is no finite number, or a negative one.
        """
        if not 0 <= self.tolerance < math.inf:
            raise SettingError(
                f"a tolerance of {self.tolerance} cannot be meant: give a number, 0 or more "
                f"({DEFAULT_TOLERANCE:g} suits float32)"
            )


class PublishUnfinishedError(ArtifactError):
    """The version exists, but not all that was to follow; publishing again would make another."""

    code = "publish_unfinished"

    @classmethod
    def of_version(cls, tag: ModelTag, undone: Iterable[str]) -> Self:
        """Say what is left to do; ``undone`` are sentences."""
        return cls(
            f"{tag} is published ({tag.digest}); do not publish it again. {' '.join(undone)}"
        )


def publish(store: ArtifactStore, candidate: Candidate, *, clock: WallClock) -> PublishedVersion:
    """Check a model, run it, and publish it as the next version.

    Raises:
        PublishUnfinishedError: The version exists, but its alias was not moved, or Triton's
            configuration not written.
        ArtifactError: Anything else that cannot be served, or aliases that cannot be read; nothing
            was written then.
        PartUnavailableError: The store failed before the version existed; at most a number was used
            up. (Where only the reply to the last write was lost, the version exists.)
    """
    if candidate.alias is not None:
        store.aliases(candidate.name)  # what could not be moved afterwards is refused now
    with tempfile.TemporaryDirectory(prefix="tidegate-publish-") as folder:
        snapshot = _snapshot(candidate.file, Path(folder))
        transform = _snapshot_of_transform(candidate.transform, Path(folder))
        draft = _inspect(snapshot, transform, candidate, created_at=clock.utc_now().isoformat())
        version = _claim(store.objects, candidate.name)
        manifest = msgspec.structs.replace(draft, version=version)
        _write_files(store.objects, snapshot, manifest)
        published = _write_manifest(store.objects, manifest)
    undone = [*_refresh_config(store, published.tag), *_move_alias(store, published.tag, candidate)]
    if undone:
        raise PublishUnfinishedError.of_version(published.tag, undone)
    return published


def _refresh_config(store: ArtifactStore, tag: ModelTag) -> Iterator[str]:
    """Yield what went wrong, if anything did: the version stands, and other steps must follow."""
    try:
        refresh_config(store, tag.name)
    except TidegateError as error:
        yield (
            f"Writing config.pbtxt, which only Triton reads, failed: {error} "
            f"The next version of {tag.name} brings it up to date."
        )


def _move_alias(store: ArtifactStore, tag: ModelTag, candidate: Candidate) -> Iterator[str]:
    """Yield likewise."""
    if candidate.alias is None:
        return
    try:
        store.move_alias(tag.name, candidate.alias, tag.version)
    except TidegateError as error:
        yield (
            f"Moving its alias failed: {error} "
            f"Run 'tidegate model alias {tag.name} {candidate.alias} {tag.version}'."
        )


def _snapshot(file: Path, folder: Path) -> Path:
    """Copy the model and its weights, so that what is checked is what is published."""
    if not file.is_file():
        raise ArtifactError(f"{file} is no file; give the path of an ONNX model")
    target = folder / file.name  # its own name, so that errors speak of the file that was given
    shutil.copyfile(file, target)
    for location in external_files(file):
        beside = folder / location
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.parent / location, beside)
    return target


def _snapshot_of_transform(file: Path | None, folder: Path) -> TransformSpec:
    """Read a transform, and copy the file that it names beside the model."""
    transform = TransformSpec() if file is None else read_transform(file)
    if file is None or transform.text is None:
        return transform
    tokenizer = file.parent / transform.text.tokenizer
    if not tokenizer.is_file():
        raise ArtifactError(
            f"[text] tokenizer: {tokenizer} is no file; give its path from the folder of {file}"
        )
    (folder / TOKENIZER_FILE).parent.mkdir(exist_ok=True)
    shutil.copyfile(tokenizer, folder / TOKENIZER_FILE)
    text = msgspec.structs.replace(transform.text, tokenizer=TOKENIZER_FILE)
    return msgspec.structs.replace(transform, text=text)


def _inspect(
    model: Path, transform: TransformSpec, candidate: Candidate, *, created_at: str
) -> Manifest:
    """Return the manifest as it will be, with version 0 still to be claimed."""
    graph = read_graph(model)
    runner = ModelRunner.load(model, threads=1)
    complete = complete_transform(transform, runner.signature, folder=model.parent)
    assets = () if complete.text is None else (complete.text.tokenizer,)
    draft = Manifest(
        name=candidate.name,
        version=0,
        created_at=created_at,
        files=_file_entries(model, (MODEL_FILE, *graph.external_files, *assets)),
        signature=runner.signature,
        batch_axis="free",
        batch_invariance=BatchInvariance(tolerance=candidate.tolerance, measured=None),
        transforms=complete,
        variants={"default": MODEL_FILE},
        opset=graph.opset,
        source=candidate.file.name,
    )
    trial = try_model(runner, draft, file=lambda path: _source(model, path))
    return msgspec.structs.replace(
        draft,
        batch_axis=trial.batch_axis,
        batch_invariance=BatchInvariance(
            tolerance=candidate.tolerance, measured=_finite(trial.largest)
        ),
        warnings=trial.warnings(candidate.tolerance),
    )


def _file_entries(model: Path, paths: Iterable[str]) -> dict[str, FileEntry]:
    return {
        path: FileEntry(
            sha256=digest_of(_source(model, path).read_bytes()).removeprefix("sha256:"),
            bytes=_source(model, path).stat().st_size,
        )
        for path in paths
    }


def _source(model: Path, path: str) -> Path:
    """Return where the snapshot holds what is published under this path."""
    return model if path == MODEL_FILE else model.parent / path


def _finite(difference: float | None) -> float | None:
    """JSON has no infinity; the warning says that labels differed."""
    return difference if difference is not None and math.isfinite(difference) else None


def _claim(objects: ObjectStore, name: ModelName) -> Version:
    """Take the next number that nobody ever took."""
    claim_id = secrets.token_hex(16)
    taken = [version_of_key(key) or 0 for key in objects.keys(model_prefix(name))]
    version = max(taken, default=0) + 1
    while not _takes(objects, claim_key(name, version), claim_id):
        version += 1
    return Version(version)


def _takes(objects: ObjectStore, key: str, claim_id: str) -> bool:
    body = msgspec.json.encode({"schema": 1, "claim_id": claim_id})
    if not isinstance(objects.put_if_absent(key, body), Refused):
        return True
    stored = objects.get(key)  # ours, if only the reply of the first try was lost
    return stored is not None and claim_id.encode() in stored.body


def _write_files(objects: ObjectStore, model: Path, manifest: Manifest) -> None:
    """The folder is ours by the claim: a file that is there already is our own earlier try."""
    prefix = version_prefix(ModelName(manifest.name), manifest.version)
    for path in manifest.files:
        objects.put_if_absent(prefix + path, _source(model, path))


def _write_manifest(objects: ObjectStore, manifest: Manifest) -> PublishedVersion:
    name, version = ModelName(manifest.name), Version(manifest.version)
    key, body = manifest_key(name, version), dump_manifest(manifest)
    if isinstance(objects.put_if_absent(key, body), Refused):
        stored = objects.get(key)
        if stored is None or stored.body != body:
            raise ArtifactError(
                f"{key} in {objects.url} was written by somebody else although {name}@{version} "
                "was claimed here. Nothing of theirs was changed; publish again."
            )
    return PublishedVersion(manifest=manifest, tag=ModelTag(name, version, digest_of(body)))
