"""``image``: a column of encoded images becomes pixels, laid out as the model reads them."""

from collections.abc import Mapping, Sequence

import numpy as np

from tidegate.artifacts.transform_specs import ImageSpec
from tidegate.inference.arrays import Array
from tidegate.inference.transforms.column import refuse_too_many, shown, values_of, wrong_value
from tidegate.inference.transforms.pixels import UnusableImageError, decode
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature


class ImageReader:
    """Reads one column of images; further columns are ignored."""

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
        """Read objects with the column, or bare bytes."""
        return self._tensor(values_of(instances, self._spec.column))

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read an object array ``(rows,)`` of bytes."""
        return self._tensor(columns[self._spec.column].tolist())

    def _tensor(self, values: Sequence[object]) -> dict[str, Array]:
        refuse_too_many(self._spec.column, len(values), row_elements=int(np.prod(self._row_shape)))
        for row, value in enumerate(values):  # before the first is decoded, which takes a while
            self._check(value, row)
        tensor = np.empty((len(values), *self._row_shape), dtype=self._dtype)
        for row, value in enumerate(values):
            tensor[row] = self._row(value, row)
        return {self._name: tensor}

    def _check(self, value: object, row: int) -> None:
        if isinstance(value, bytes):
            return
        hint = ' (in JSON, bytes are {"b64": "…"})' if isinstance(value, str) else ""
        raise wrong_value(
            self._spec.column, row, expected="the bytes of an image", found=shown(value) + hint
        )

    def _row(self, content: object, row: int) -> Array:
        assert isinstance(content, bytes), "checked"
        try:
            pixels = decode(content, self._spec)
        except UnusableImageError as error:
            raise wrong_value(
                self._spec.column, row, expected="an image", found=str(error)
            ) from error
        if self._spec.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        if self._dtype.kind == "f":
            pixels = (pixels * np.float32(self._spec.scale) - self._mean) / self._std
        return pixels.transpose(2, 0, 1) if self._spec.layout == "nchw" else pixels


def row_shape(spec: ImageSpec) -> tuple[int, int, int]:
    """Return the shape of one row: channels, height, width, or with the channels last."""
    height, width = spec.size
    return (spec.depth, height, width) if spec.layout == "nchw" else (height, width, spec.depth)
