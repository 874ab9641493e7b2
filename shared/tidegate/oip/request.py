"""From the bytes of an ``infer`` request to tensors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.oip.errors import (
    BadOptionError,
    MalformedRequestError,
    TooManyRowsError,
    UnsupportedParameterError,
)
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.parsing import parse
from tidegate.oip.values import Array, array_from_json

Parameter = str | int | float | bool
Parameters = Mapping[str, Parameter]

_REFUSED: Final = ("shared_memory_", "sequence_", "binary_data_size", "classification")
"""Beginnings of parameters that cannot be ignored: without them the request means another thing."""
OPTION_PREFIX: Final = "tidegate_"


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Parameter] | None = None


class _Tensor(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Parameter] | None = None


class _Request(msgspec.Struct):
    inputs: list[_Tensor]
    id: str | None = None
    parameters: dict[str, Parameter] | None = None
    outputs: list[_Output] | None = None


class InferRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks of a model.

    A struct, because this is built for every request: a frozen dataclass takes eight times as
    long to build.
    """

    id: str | None
    """Comes back unchanged, the empty one too; ``None`` if none was given."""
    rows: int
    """Leading dimension of every input, at least 1."""
    inputs: dict[str, Array]
    """``(rows, …)`` each, by name, as they came; not yet compared with any signature."""
    outputs: tuple[str, ...] | None
    """Names of the wanted outputs, each once; ``None`` for all."""
    parameters: Parameters


_DECODER: Final = msgspec.json.Decoder(_Request)


def decode_request(body: bytes, limits: WireLimits = DEFAULT_LIMITS) -> InferRequest:
    """Read a request that is JSON altogether.

    Raises:
        MalformedJsonError: The body is no JSON, or nested too deeply; NaN and Infinity are none.
        MalformedRequestError: A field is missing, has another type, or contradicts another one.
        NeedsBinaryError: A 16-bit float.
        TooManyElementsError, TooManyRowsError: It is sound, but too large.
        UnsupportedParameterError, BadOptionError: A parameter that cannot be ignored.
    """
    wire = parse(body, _DECODER, expected="The request is not as the protocol says", limits=limits)
    parameters = wire.parameters or {}
    check_parameters(parameters)
    booleans = b"true" in body or b"false" in body
    inputs = _inputs(wire.inputs, limits, booleans=booleans)
    rows = _rows(inputs, limits)
    outputs = None if wire.outputs is None else _outputs(wire.outputs, limits)
    return InferRequest(
        id=wire.id, rows=rows, inputs=inputs, outputs=outputs, parameters=parameters
    )


def check_parameters(parameters: Parameters) -> None:
    """Accept parameters that may be ignored; the protocol says that unknown ones are.

    Raises:
        UnsupportedParameterError: One that would change what the request means.
        BadOptionError: One of ours that does not exist.
    """
    for name in parameters:
        if name.startswith(_REFUSED):
            raise UnsupportedParameterError(
                f"The parameter {name[:80]!r} is not supported here; leave it out."
            )
        if name.startswith(OPTION_PREFIX):
            raise BadOptionError(f"There is no option {name[:80]!r}; leave it out.")


def _inputs(tensors: Sequence[_Tensor], limits: WireLimits, *, booleans: bool) -> dict[str, Array]:
    if not 0 < len(tensors) <= limits.tensors:
        raise MalformedRequestError(
            f"The request has {len(tensors)} inputs; 1 to {limits.tensors} are accepted."
        )
    inputs: dict[str, Array] = {}
    for tensor in tensors:
        if tensor.name in inputs:
            raise MalformedRequestError(f"The input {tensor.name[:80]!r} is there twice.")
        inputs[tensor.name] = _array(tensor, limits, booleans=booleans)
    return inputs


def _array(tensor: _Tensor, limits: WireLimits, *, booleans: bool) -> Array:
    name, shape = tensor.name[:80], tensor.shape
    if not 0 < len(shape) <= limits.rank:
        raise MalformedRequestError(
            f"{name!r}: its shape has {len(shape)} dimensions; 1 (the rows) to {limits.rank} are "
            "accepted."
        )
    if min(shape) < 0:
        raise MalformedRequestError(f"{name!r}: its shape has a negative dimension.")
    if tensor.parameters:
        check_parameters(tensor.parameters)
    array = array_from_json(
        tensor.data, name=name, datatype=tensor.datatype, shape=shape, booleans=booleans
    )
    if tensor.datatype == "BYTES":
        _check_items(array, name, limits)
    return array


def _check_items(array: Array, name: str, limits: WireLimits) -> None:
    for item in array.flat:
        # A character is at most 4 bytes, so that short strings need no encoding.
        if len(item) * 4 > limits.item_bytes and len(item.encode()) > limits.item_bytes:
            raise MalformedRequestError(
                f"{name!r}: an item is longer than {limits.item_bytes} bytes."
            )


def _rows(inputs: Mapping[str, Array], limits: WireLimits) -> int:
    counts = {array.shape[0] for array in inputs.values()}
    rows: int = counts.pop()
    if counts:
        found = {name[:80]: array.shape[0] for name, array in inputs.items()}
        raise MalformedRequestError(
            f"Every input must have the same number of rows (its leading dimension); found {found}."
        )
    if rows == 0:
        raise MalformedRequestError("The request has no rows; send at least one.")
    check_rows(rows, limits)
    return rows


def check_rows(rows: int, limits: WireLimits) -> None:
    """Refuse more rows than one request may carry.

    Raises:
        TooManyRowsError: With the limit and what was found.
    """
    if rows > limits.rows:
        raise TooManyRowsError.of(
            "rows", limit=limits.rows, found=rows, advice="Send them in several requests."
        )


def _outputs(wanted: Sequence[_Output], limits: WireLimits) -> tuple[str, ...]:
    if not 0 < len(wanted) <= limits.outputs:
        raise MalformedRequestError(
            f"The request names {len(wanted)} outputs; 1 to {limits.outputs} are accepted, and "
            "without the field all come back."
        )
    for output in wanted:
        if output.parameters:
            check_parameters(output.parameters)
    names = tuple(output.name for output in wanted)
    if len(set(names)) != len(names):
        raise MalformedRequestError("An output is asked for twice; name each once.")
    return names
