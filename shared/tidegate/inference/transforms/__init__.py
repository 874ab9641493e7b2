"""Transforms: named, parameterised by the manifest, and the same for both services.

A reader turns people's rows into tensors, a writer turns tensors into what people read.
"""

from collections.abc import Callable
from pathlib import Path

from tidegate.artifacts.manifest import Manifest
from tidegate.inference.transforms.image import ImageReader
from tidegate.inference.transforms.labels import build_writer as _build_writer
from tidegate.inference.transforms.plain import PlainReader
from tidegate.inference.transforms.pooling import PoolingWriter
from tidegate.inference.transforms.port import RowReader, RowWriter
from tidegate.inference.transforms.tabular import TabularReader
from tidegate.inference.transforms.text import TextReader, load_tokenizer

__all__ = ["RowReader", "RowWriter", "build_reader", "build_writer"]


def build_reader(manifest: Manifest, *, file: Callable[[str], Path]) -> RowReader:
    """Pick the reader that the manifest asks for; without one, the model's own inputs.

    Args:
        manifest: Of the version.
        file: Where a file that the manifest lists lies.

    Raises:
        ArtifactError: A file of the transform is not what it must be.
    """
    transforms, signature = manifest.transforms, manifest.signature
    if transforms.tabular is not None:
        return TabularReader(transforms.tabular, signature)
    if transforms.text is not None:
        tokenizer = load_tokenizer(file(transforms.text.tokenizer))
        return TextReader(transforms.text, signature, tokenizer)
    if transforms.image is not None:
        return ImageReader(transforms.image, signature)
    return PlainReader(signature)


def build_writer(manifest: Manifest) -> RowWriter:
    """Pick the writers that the manifest asks for; without one, the model's own outputs."""
    transforms = manifest.transforms
    writer: RowWriter = _build_writer(transforms.labels, manifest.signature)
    if transforms.pooling is not None and transforms.text is not None:
        writer = PoolingWriter(transforms.pooling, transforms.text, writer)
    return writer
