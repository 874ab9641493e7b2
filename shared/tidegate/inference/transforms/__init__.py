"""Transforms: named, parameterised by the manifest, and the same for both services.

A reader turns people's rows into tensors, a writer turns tensors into what people read.
"""

from tidegate.artifacts.manifest import Manifest
from tidegate.inference.transforms.labels import build_writer as _build_writer
from tidegate.inference.transforms.plain import PlainReader
from tidegate.inference.transforms.port import RowReader, RowWriter
from tidegate.inference.transforms.tabular import TabularReader

__all__ = ["RowReader", "RowWriter", "build_reader", "build_writer"]


def build_reader(manifest: Manifest) -> RowReader:
    """Pick the reader that the manifest asks for; without one, the model's own inputs."""
    tabular = manifest.transforms.tabular
    if tabular is not None:
        return TabularReader(tabular, manifest.signature)
    return PlainReader(manifest.signature)


def build_writer(manifest: Manifest) -> RowWriter:
    """Pick the writer that the manifest asks for; without one, the model's own outputs."""
    return _build_writer(manifest.transforms.labels, manifest.signature)
