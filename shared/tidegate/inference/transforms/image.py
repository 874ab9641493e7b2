"""``image``: a column of encoded images becomes pixels, laid out as the model reads them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Final

import numpy as np

from tidegate.artifacts.transform_specs import ImageSpec
from tidegate.inference.arrays import Array
from tidegate.inference.transforms.column import (
    refuse_too_many,
    refuse_too_much,
    shown,
    values_of,
    wrong_value,
)
from tidegate.inference.transforms.pixels import UnusableImageError, decode, open_image
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature

MOST_PIXELS_AT_ONCE: Final = 268_435_456
"""Of all images of one request: 256 Mi, which take some seconds to decode."""


class ImageReader:
    """Reads one column of images; further columns are ignored."""

    reads_numbers = False

    def __init__(self, spec: ImageSpec, signature: Signature) -> None:
        found = signature.input(spec.input or "")
        if found is None:
            raise ValueError(f"[image] input {spec.input!r} is none of {signature}")
        self._spec = spec
        self._name = found.name
        self._dtype = np.dtype(DATATYPES[found.datatype].numpy)
        self._row_shape = row_shape(spec)
        mean, std = spec.mean or (0.0,) * spec.depth, spec.std or (1.0,) * spec.depth
        self._mean, self._std = np.array(mean, np.float32), np.array(std, np.float32)
        self.columns = (spec.column,)
        self.formats = spec.formats

    def from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Read objects with the column, or bare bytes; together no more than a request may be."""
        contents = self._checked(values_of(instances, self._spec.column))
        refuse_too_many(self._spec.column, len(contents), row_elements=prod(self._row_shape))
        pixels = 0
        for row, content in enumerate(contents):  # headers alone, before the first is decoded
            with self._naming(row):
                image = open_image(content, self._spec)
            pixels += image.width * image.height
        refuse_too_much(self._spec.column, pixels, most=MOST_PIXELS_AT_ONCE, of="pixels")
        return self._tensor(contents)

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read an object array ``(rows,)`` of bytes."""
        return self._tensor(self._checked(columns[self._spec.column].tolist()))

    def _checked(self, values: Sequence[object]) -> list[bytes]:
        return [self._bytes(value, row) for row, value in enumerate(values)]

    def _bytes(self, value: object, row: int) -> bytes:
        if isinstance(value, bytes):
            return value
        hint = ' (in JSON, bytes are {"b64": "…"})' if isinstance(value, str) else ""
        raise wrong_value(
            self._spec.column, row, expected="the bytes of an image", found=shown(value) + hint
        )

    def _tensor(self, contents: Sequence[bytes]) -> dict[str, Array]:
        tensor = np.empty((len(contents), *self._row_shape), dtype=self._dtype)
        for row, content in enumerate(contents):
            with self._naming(row):
                tensor[row] = self._row(decode(content, self._spec))
        return {self._name: tensor}

    @contextmanager
    def _naming(self, row: int) -> Iterator[None]:
        try:
            yield
        except UnusableImageError as error:
            column = self._spec.column
            raise wrong_value(column, row, expected="an image", found=str(error)) from error

    def _row(self, pixels: Array) -> Array:
        if self._spec.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self._dtype.kind == "f":
            pixels = (pixels * np.float32(self._spec.scale) - self._mean) / self._std
        return pixels.transpose(2, 0, 1) if self._spec.layout == "nchw" else pixels


def row_shape(spec: ImageSpec) -> tuple[int, int, int]:
    """Return the shape of one row: channels, height, width, or with the channels last."""
    height, width = spec.size
    return (spec.depth, height, width) if spec.layout == "nchw" else (height, width, spec.depth)
