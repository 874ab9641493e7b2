"""What a job is moved on with; ``main`` puts it together, tests put fakes in."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.artifacts.manifest import Manifest
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock import Clock, WallClock
from tidegate.errors import DigestMismatchError
from tidegate.ids import ModelName, Version
from tidegate_batch.core.records import PinnedModel
from tidegate_batch.ports import RowSink, RowSource, Stores


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Stores, files, clocks and randomness for the driver, and again for each worker."""

    stores: Stores
    source: RowSource
    sink: RowSink
    clock: Clock
    wall: WallClock
    pause: Callable[[int], None]
    """Blocks for so many nanoseconds."""
    new_id: Callable[[], str]
    """Returns 128 random bits as 32 hex digits."""
    free_bytes: Callable[[Path], int] = _free_bytes
    """Returns how much more the disk holds that a folder lies on."""

    def now(self) -> str:
        """Return the calendar time as a job's records write it."""
        return self.wall.utc_now().isoformat(timespec="milliseconds")


def pinned_manifest(parts: Parts, store_url: str, model: PinnedModel) -> Manifest:
    """Read the manifest of the version that a job is pinned to.

    Raises:
        ModelNotFoundError: The version is gone.
        DigestMismatchError: What bears its number now is not what was pinned.
    """
    artifacts = ArtifactStore(parts.stores(store_url))
    published = artifacts.published(ModelName(model.name), Version(model.version))
    if published.tag.digest != model.digest:
        raise DigestMismatchError.of_file(
            f"manifest.json of {model}", expected=model.digest, found=published.tag.digest
        )
    return published.manifest
