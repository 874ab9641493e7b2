"""Reading published versions and moving aliases: the store as both services see it.

Publishing, which runs the model, is ``tidegate.publishing``.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

from tidegate.artifacts.aliases import NO_ALIASES, Aliases, dump_aliases, load_aliases
from tidegate.artifacts.layout import (
    MODELS,
    aliases_key,
    manifest_key,
    model_prefix,
    version_of_key,
    version_prefix,
)
from tidegate.artifacts.local import LocalVersion, copy_files, fetch_version, verify_files
from tidegate.artifacts.manifest import PublishedVersion, load_manifest
from tidegate.errors import AliasMovedError, DigestMismatchError, ModelNotFoundError
from tidegate.ids import (
    Alias,
    InvalidIdError,
    ModelName,
    ModelRef,
    ModelTag,
    Version,
    digest_of,
    parse_model_name,
)
from tidegate.objects.port import ObjectStore, Written


class ArtifactStore:
    """The models under one object store."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def names(self) -> list[ModelName]:
        """Return every model that has a published version, in alphabetical order."""
        found = (key.split("/")[1] for key in self.objects.keys(MODELS))
        return [name for name in dict.fromkeys(_valid_names(found)) if self.versions(name)]

    def versions(self, name: ModelName) -> list[Version]:
        """Return the published versions, oldest first; a claimed number is not one."""
        numbers = (
            version_of_key(key)
            for key in self.objects.keys(model_prefix(name))
            if key.endswith("/manifest.json")
        )
        return sorted(number for number in numbers if number)

    def _is_published(self, name: ModelName, version: Version) -> bool:
        return self.objects.head(manifest_key(name, version)) is not None

    def resolve(self, ref: ModelRef) -> Version:
        """Turn a reference into the version that it names at this moment.

        Raises:
            ModelNotFoundError: There is no such model, alias or version; the message lists
                what there is.
        """
        if isinstance(ref.at, int):
            if self._is_published(ref.name, Version(ref.at)):
                return Version(ref.at)
            raise self._not_found(ref)
        version = self.aliases(ref.name).aliases.get(ref.at)
        if version is None:
            raise self._not_found(ref)
        return Version(version)

    def _not_found(self, ref: ModelRef) -> ModelNotFoundError:
        versions = self.versions(ref.name)
        if not versions:
            names = ", ".join(self.names()) or "none; publish one with 'tidegate model publish'"
            return ModelNotFoundError(
                f"no model {ref.name!r} in {self.objects.url}. Models there: {names}."
            )
        missing = f"{ref} is not in {self.objects.url}. {ref.name} has the versions {versions}"
        if isinstance(ref.at, int):
            return ModelNotFoundError(
                f"{missing}; 'tidegate model publish {ref.name} FILE.onnx' makes the next one."
            )
        return ModelNotFoundError(
            f"{missing} and the aliases {self.aliases(ref.name).aliases}. Name one of these, or "
            f"set this alias with 'tidegate model alias {ref.name} {ref.at} VERSION'."
        )

    def published(self, name: ModelName, version: Version) -> PublishedVersion:
        """Read the manifest of one version.

        Raises:
            ModelNotFoundError: There is no such version.
            ArtifactError: Its manifest cannot be read, or is another version's.
        """
        stored = self.objects.get(manifest_key(name, version))
        if stored is None:
            raise self._not_found(ModelRef(name, version))
        manifest = load_manifest(stored.body, where=f"{name}@{version}")
        if (manifest.name, manifest.version) != (name, version):
            raise DigestMismatchError.of_file(
                manifest_key(name, version),
                expected=f"the manifest of {name}@{version}",
                found=f"that of {manifest.name}@{manifest.version}",
            )
        return PublishedVersion(
            manifest=manifest, tag=ModelTag(name, version, digest_of(stored.body))
        )

    def pull(self, name: ModelName, version: Version, *, cache: Path) -> LocalVersion:
        """Bring a version's files to this machine's disk, every byte verified.

        Args:
            name: The model.
            version: A published version of it.
            cache: Folder for downloads; files that lie on this disk already are used in place.

        Raises:
            ModelNotFoundError: There is no such version.
            DigestMismatchError: A file is not the published one.
            PartUnavailableError: The store does not answer, or the cache cannot be written.
        """
        return fetch_version(self.objects, self.published(name, version), cache=cache)

    def export(self, name: ModelName, version: Version, folder: Path) -> ModelTag:
        """Copy a version's files to a folder of the caller's.

        Raises:
            ModelNotFoundError: There is no such version.
            DigestMismatchError: A file is not the published one.
            PartUnavailableError: The store does not answer, or the folder cannot be written.
        """
        published = self.published(name, version)
        copy_files(self.objects, published, folder=folder)
        return published.tag

    def verify(self, name: ModelName, version: Version) -> list[str]:
        """Read every file of a version and return one sentence per defect; none if sound."""
        published = self.published(name, version)
        return verify_files(self.objects, version_prefix(name, version), published.manifest)

    def aliases(self, name: ModelName) -> Aliases:
        """Read where each alias of a model points now."""
        stored = self.objects.get(aliases_key(name))
        return load_aliases(stored.body, where=name) if stored else NO_ALIASES

    def move_alias(
        self,
        name: ModelName,
        alias: Alias,
        version: Version,
        *,
        expected: int | None = None,
        revision: int | None = None,
    ) -> Aliases:
        """Point an alias at a published version.

        Without ``expected`` the last writer wins, but never undoes the move of *another* alias:
        a lost compare-and-swap is read again and repeated. With ``expected`` (a version, 0 for
        "not set yet") it is made from that state or not at all; with ``revision``, from that state
        of all aliases together (0: before the first).

        Raises:
            ModelNotFoundError: There is no such version.
            AliasMovedError: The alias was not at ``expected``, or the aliases not at ``revision``.
        """
        if not self._is_published(name, version):
            raise self._not_found(ModelRef(name, version))
        write_id = secrets.token_hex(16)
        while True:
            stored = self.objects.get(aliases_key(name))
            now = load_aliases(stored.body, where=name) if stored else NO_ALIASES
            if write_id in now.write_ids:  # an earlier try landed and its reply was lost
                return now
            if expected is not None and now.aliases.get(alias, 0) != expected:
                raise AliasMovedError(
                    f"{name}@{alias} is at {now.aliases.get(alias, 'no version')}, not at "
                    f"{expected}: somebody moved it. Look at it again before you decide."
                )
            if revision is not None and now.revision != revision:
                raise AliasMovedError(
                    f"the aliases of {name} are at revision {now.revision}, not at {revision}: "
                    "somebody moved one. Look at them again before you decide."
                )
            moved = now.moved(alias, version, write_id=write_id)
            if self._swap(name, dump_aliases(moved), stored.etag if stored else None):
                return moved

    def _swap(self, name: ModelName, body: bytes, etag: str | None) -> bool:
        key = aliases_key(name)
        if etag is None:
            return isinstance(self.objects.put_if_absent(key, body), Written)
        return isinstance(self.objects.replace(key, body, etag=etag), Written)


def _valid_names(candidates: Iterator[str]) -> Iterator[ModelName]:
    """Skip folders that cannot be a model's; strangers may share the store."""
    for candidate in candidates:
        try:
            yield parse_model_name(candidate)
        except InvalidIdError:
            continue
