"""From a store's URL and a reference to a model in memory."""

from pathlib import Path

from tidegate.artifacts.store import ArtifactStore
from tidegate.ids import ModelRef
from tidegate.inference.model import Model


def open_model(store: ArtifactStore, ref: ModelRef, *, cache: Path, threads: int) -> Model:
    """Resolve, fetch, verify and load a model version.

    Raises:
        ModelNotFoundError: The reference names nothing.
        DigestMismatchError: A file is not the published one.
        ArtifactError: The model cannot be loaded.
    """
    version = store.resolve(ref)
    return Model.load(store.pull(ref.name, version, cache=cache), threads=threads)
