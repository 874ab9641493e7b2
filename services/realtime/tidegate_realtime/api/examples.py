"""A request that a newcomer can copy, made from what a model reads."""

import json
from math import prod
from typing import Final

from tidegate.artifacts.manifest import Column
from tidegate.tensors.signature import VARIABLE, TensorSpec
from tidegate_realtime.api.served import ServedVersion

_MOST_VALUES: Final = 256
"""An example longer than this is read by nobody."""
_MOST_NAMES: Final = 8
"""Above it the values alone, in the order of the columns, which is accepted too."""
_SMALLEST: Final = {
    "png": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5E"
    "rkJggg==",
    "webp": "UklGRh4AAABXRUJQVlA4TBEAAAAvAAAAAAfQ//73v/+BiOh/AAA=",
    "jpeg": "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI//////////////"
    "//////////////////////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAABP/EABQQAQ"
    "AAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8Aa//Z",
}
"""An image of one white pixel, in base64."""


def example_request(served: ServedVersion, *, public_url: str) -> str:
    """Return a ``curl`` line that this model answers, or one that shows what the model reads."""
    name = served.model.tag.name
    values = sum(prod(_row_shape(spec)) for spec in served.model.signature.inputs)
    if values > _MOST_VALUES and served.model.manifest.transforms.image is None:
        return f"curl {public_url}/v2/models/{name}"
    body = json.dumps({"instances": [_instance(served)]})
    return f"curl {public_url}/v1/models/{name}:predict -d '{body}'"


def _instance(served: ServedVersion) -> object:
    signature, transforms = served.model.signature, served.model.manifest.transforms
    if transforms.tabular is not None:
        row = {column.name: _zero(column) for column in transforms.tabular.columns}
        return row if len(row) <= _MOST_NAMES else list(row.values())
    if transforms.text is not None:
        return {transforms.text.column: "Is it safe to swim at noon?"}
    if transforms.image is not None:
        return {transforms.image.column: {"b64": _SMALLEST[transforms.image.formats[0]]}}
    if len(signature.inputs) == 1:
        return _zeros(signature.inputs[0])
    return {spec.name: _zeros(spec) for spec in signature.inputs}


def _zero(column: Column) -> object:
    if column.categories:
        return column.categories[0]
    return False if column.type == "boolean" else 0


def _zeros(spec: TensorSpec) -> object:
    zero: object = {"BYTES": "", "BOOL": False}.get(spec.datatype, 0)
    for size in reversed(_row_shape(spec)):
        zero = [zero] * size
    return zero


def _row_shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(1 if size == VARIABLE else size for size in spec.row_shape)
