"""A version's files on this machine's disk: fetched once, verified at every load."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tidegate.artifacts.layout import manifest_key, version_prefix
from tidegate.artifacts.manifest import FileEntry, Manifest, PublishedVersion
from tidegate.errors import DigestMismatchError, PartUnavailableError
from tidegate.ids import ModelTag
from tidegate.objects.port import ObjectStore

_BLOCK_BYTES = 1 << 20
_ABSENT = "no file"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVersion:
    """A version whose every file was just found to have the published bytes."""

    folder: Path
    """Holds each file of the manifest under the path that the manifest gives it."""
    manifest: Manifest
    tag: ModelTag

    @property
    def size_bytes(self) -> int:
        """Of all its files; in memory a model takes about as much for its weights."""
        return sum(entry.bytes for entry in self.manifest.files.values())

    def file(self, path: str) -> Path:
        """Return where a file that the manifest lists lies."""
        return self.folder / path


def fetch_version(
    objects: ObjectStore, published: PublishedVersion, *, cache: Path
) -> LocalVersion:
    """Return the version's files, used in place where they lie on this disk, else from the cache.

    The cache is named by digest, so that it can never hold another version's bytes.

    Raises:
        DigestMismatchError: A file is not the published one.
        PartUnavailableError: The cache cannot be written, as on a full disk.
    """
    manifest, tag = published.manifest, published.tag
    in_place = objects.local_path(manifest_key(tag.name, tag.version))
    if in_place is None:
        folder = cache / tag.digest.replace(":", "-")
        copy_files(objects, published, folder=folder)
    else:
        folder = in_place.parent
        for path, entry in manifest.files.items():
            _check(folder / path, entry, where=f"{tag} {path}")
    return LocalVersion(folder=folder, manifest=manifest, tag=tag)


def copy_files(objects: ObjectStore, published: PublishedVersion, *, folder: Path) -> None:
    """Bring every file of a version into a folder; one that is there with its bytes stays.

    Raises:
        DigestMismatchError: A file is not the published one.
        PartUnavailableError: The folder cannot be written, as on a full disk.
    """
    prefix = version_prefix(published.tag.name, published.tag.version)
    for path, entry in published.manifest.files.items():
        target = folder / path
        where = f"{published.tag} {path}"
        with _explaining(target, where=where):
            if _sha256_of(target) != entry.sha256:
                _download(objects, prefix + path, target, entry, where=where)


def verify_files(objects: ObjectStore, prefix: str, manifest: Manifest) -> list[str]:
    """Read every file in the store and describe each that is missing or changed."""
    problems = []
    for path, entry in manifest.files.items():
        head = objects.head(prefix + path)
        found = _ABSENT
        if head is not None:
            with objects.open(prefix + path, etag=head.etag) as file:
                found = _sha256_of_stream(file)
        if found != entry.sha256:
            error = DigestMismatchError.of_file(path, expected=entry.sha256, found=found)
            problems.append(str(error))
    return problems


def _download(
    objects: ObjectStore, key: str, target: Path, entry: FileEntry, *, where: str
) -> None:
    """Write to a temporary name, verify, flush to disk, then rename: never unproven bytes."""
    head = objects.head(key)
    if head is None:
        raise DigestMismatchError.of_file(where, expected=entry.sha256, found=_ABSENT)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with objects.open(key, etag=head.etag) as source, part.open("xb") as file:
            digest = hashlib.sha256()
            for block in _blocks(source):
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != entry.sha256:
            found = digest.hexdigest()
            raise DigestMismatchError.of_file(where, expected=entry.sha256, found=found)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)  # also on Ctrl-C: leave no orphan behind


@contextmanager
def _explaining(target: Path, *, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PartUnavailableError(
            f"{where} cannot be brought to {target}: {error.strerror or error}. Nothing was "
            f"loaded. Make room there, let user id {os.geteuid()} write there, or name another "
            "folder; then repeat."
        ) from error


def _check(target: Path, entry: FileEntry, *, where: str) -> None:
    found = _sha256_of(target)
    if found != entry.sha256:
        raise DigestMismatchError.of_file(where, expected=entry.sha256, found=found)


def _sha256_of(path: Path) -> str:
    if not path.is_file():
        return _ABSENT
    with path.open("rb") as file:
        return _sha256_of_stream(file)


def _sha256_of_stream(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    for block in _blocks(file):
        digest.update(block)
    return digest.hexdigest()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block
