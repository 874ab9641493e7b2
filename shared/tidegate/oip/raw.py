"""A request without any JSON: its whole body is the one input of a model."""

from collections.abc import Sequence
from math import prod
from typing import Final

from tidegate.oip.binary import Array, array_from_bytes, text_array
from tidegate.oip.errors import BinaryLayoutError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.request import InferRequest
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

_ROW: Final = "A body without JSON is one row of a model with one input"


def decode_raw_request(
    body: bytes, signature: Signature, limits: WireLimits = DEFAULT_LIMITS
) -> InferRequest:
    """Read a body of which no byte is JSON (``Inference-Header-Content-Length: 0``).

    A variable dimension has the length that the body's length leaves for it. A BYTES item is the
    whole body, without a length before it. All outputs come back as bytes.

    Raises:
        BinaryLayoutError: The model has several inputs, more than one variable dimension, or
            takes rows of another length.
        MalformedRequestError: BYTES that are no text.
        TooManyElementsError: More than one tensor may have.
    """
    if len(signature.inputs) != 1:
        raise BinaryLayoutError(f"{_ROW}; this one has {len(signature.inputs)}.")
    (spec,) = signature.inputs
    return InferRequest(
        id=None,
        rows=1,
        inputs={spec.name: _row(body, spec, limits)},
        outputs=None,
        binary=True,
        parameters={},
    )


def _row(body: bytes, spec: TensorSpec, limits: WireLimits) -> Array:
    item_bytes = DATATYPES[spec.datatype].item_bytes
    if item_bytes is None:
        shape = _shape(spec, elements=1)
        return text_array([body], name=spec.name, limits=limits).reshape(shape)
    shape = _shape(spec, elements=len(body) // item_bytes)
    return array_from_bytes(
        body, name=spec.name, datatype=spec.datatype, shape=shape, limits=limits
    )


def _shape(spec: TensorSpec, *, elements: int) -> Sequence[int]:
    fixed = prod(size for size in spec.row_shape if size != VARIABLE)
    variable = spec.row_shape.count(VARIABLE)
    if variable > 1:
        raise BinaryLayoutError(
            f"{_ROW} that leaves one dimension open at most; {spec.name!r} is {spec}."
        )
    length = elements // fixed if variable and fixed else 0
    shape = (1, *(length if size == VARIABLE else size for size in spec.row_shape))
    if prod(shape) != elements:
        raise BinaryLayoutError(
            f"{_ROW}: {spec.name!r} is {spec}, and this body has {elements} values."
        )
    return shape
