"""From the bytes of an ``infer`` request to tensors."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.oip.binary import array_from_bytes
from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.layout import Blobs, Layout
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.parameters import OF_INPUT, OF_OUTPUT, Parameter, Parameters, check_parameters
from tidegate.oip.parsing import parse
from tidegate.oip.scanning import has_boolean
from tidegate.oip.shapes import check_elements, check_rows, check_shape
from tidegate.oip.values import Array, array_from_json
from tidegate.oip.wanted import WantedOutput, wanted_form


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Parameter] | None = None


class _Tensor(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | msgspec.UnsetType = msgspec.UNSET
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
    outputs: tuple[WantedOutput, ...] | None
    """The wanted outputs, each once; ``None`` for all."""
    binary: bool = False
    """The form of all outputs where none is named."""
    parameters: Parameters


class _Head(msgspec.Struct):
    """The JSON of a request, read and checked; nobody changes what it holds, but for the layout."""

    id: str | None
    tensors: list[_Tensor]
    outputs: tuple[WantedOutput, ...] | None
    binary: bool
    booleans: bool
    """Whether a ``true`` or ``false`` stands in it anywhere."""
    parameters: Parameters
    is_kept: bool = False
    """For other requests with the same text."""
    layout: Layout | None = None
    """Of the bytes behind it, once a body was read that says all about others."""

    def request(self, inputs: dict[str, Array], rows: int) -> InferRequest:
        return InferRequest(
            id=self.id,
            rows=rows,
            inputs=inputs,
            outputs=self.outputs,
            binary=self.binary,
            parameters=self.parameters,
        )


_DECODER: Final = msgspec.json.Decoder(_Request)
_NOTHING: Final[Parameters] = {}
HEADS: Final[dict[bytes, _Head]] = {}
"""By their text; reading one takes longer than all else that a request of bytes needs."""
_MOST_HEADS: Final = 256
_LONGEST_HEAD_BYTES: Final = 1_024
_FORM_OF_OUTPUT: Final = OF_OUTPUT | {"binary_data"}
_NO_BLOBS: Final = Blobs(b"", 0)
"""For a body that is JSON altogether; nothing can be taken of it, so that all share it."""


def decode_request(
    body: bytes, *, json_bytes: int | None = None, limits: WireLimits = DEFAULT_LIMITS
) -> InferRequest:
    """Read a request.

    Args:
        body: JSON, and behind it the bytes of the inputs that carry ``binary_data_size``. Arrays
            of these are views of it.
        json_bytes: Where the JSON ends, as ``json_length`` found; by default with the body.
        limits: Looked at before anything is made.

    Raises:
        MalformedJsonError: The JSON is none, or nested too deeply; NaN and Infinity are none.
        MalformedRequestError: A field is missing, has another type, or contradicts another one.
        NeedsBinaryError: A 16-bit float in the JSON.
        BinaryLayoutError: The bytes behind the JSON are not those of the tensors.
        TooManyElementsError, TooManyRowsError: It is sound, but too large.
        UnsupportedParameterError, BadOptionError: A parameter that cannot be ignored.
    """
    end = len(body) if json_bytes is None else json_bytes
    if end == len(body):
        head = _read_head(body, limits)
        inputs = _inputs(head.tensors, _NO_BLOBS, limits, booleans=head.booleans)
        return head.request(inputs, rows_of(inputs, limits))
    head = _known_head(body[:end], limits)
    layout = head.layout
    if layout is not None and layout.size_bytes == len(body) - end:
        return head.request(layout.tensors(body, end), layout.rows)
    blobs = Blobs(body, end)
    inputs = _inputs(head.tensors, blobs, limits, booleans=head.booleans)
    blobs.check_end()
    rows = rows_of(inputs, limits)
    if head.is_kept:
        head.layout = Layout.of(inputs, rows)
    return head.request(inputs, rows)


def _known_head(text: bytes, limits: WireLimits) -> _Head:
    """Read the JSON before bytes, which a client repeats to the letter with each request.

    What holds anything of one caller is not kept: no other request would have it, and one of a kind
    with each request would push out what all others repeat.
    """
    if limits is not DEFAULT_LIMITS:
        return _read_head(text, limits)
    head = HEADS.get(text)
    if head is None:
        wire = _wire(text, limits)
        head = _head(wire, text, limits)
        if len(text) <= _LONGEST_HEAD_BYTES and _is_common(wire):
            if len(HEADS) >= _MOST_HEADS:
                HEADS.clear()
            head.is_kept = True
            HEADS[text] = head
    return head


def _is_common(wire: _Request) -> bool:
    """Whether it says the form of a request and nothing else."""
    return (
        not wire.id
        and set(wire.parameters or ()) <= {"binary_data_output"}
        and all(tensor.data is msgspec.UNSET for tensor in wire.inputs)
        and all(set(tensor.parameters or ()) <= OF_INPUT for tensor in wire.inputs)
        and all(set(output.parameters or ()) <= _FORM_OF_OUTPUT for output in wire.outputs or ())
    )


def _read_head(text: bytes, limits: WireLimits) -> _Head:
    return _head(_wire(text, limits), text, limits)


def _wire(text: bytes, limits: WireLimits) -> _Request:
    return parse(text, _DECODER, expected="The request is not as the protocol says", limits=limits)


def _head(wire: _Request, text: bytes, limits: WireLimits) -> _Head:
    parameters = wire.parameters or _NOTHING
    outputs, binary = wanted_form(wire.outputs, parameters, limits)
    return _Head(wire.id, wire.inputs, outputs, binary, has_boolean(text), parameters)


def _inputs(
    tensors: Sequence[_Tensor], blobs: Blobs, limits: WireLimits, *, booleans: bool
) -> dict[str, Array]:
    if not 0 < len(tensors) <= limits.tensors:
        raise MalformedRequestError(
            f"The request has {len(tensors)} inputs; 1 to {limits.tensors} are accepted."
        )
    inputs: dict[str, Array] = {}
    for tensor in tensors:
        if tensor.name in inputs:
            raise MalformedRequestError(f"The input {tensor.name[:80]!r} is there twice.")
        inputs[tensor.name] = _array(tensor, blobs, limits, booleans=booleans)
    if len(inputs) > 1:  # else it has been compared with the limit of one
        elements = sum([array.size for array in inputs.values()])
        check_elements("all inputs", elements, limits.request_elements)
    return inputs


def _array(tensor: _Tensor, blobs: Blobs, limits: WireLimits, *, booleans: bool) -> Array:
    name, shape, data = tensor.name[:80], tensor.shape, tensor.data
    check_shape(name, shape, limits)
    size = None
    if tensor.parameters:
        check_parameters(tensor.parameters, known=OF_INPUT)
        size = tensor.parameters.get("binary_data_size")
    if data is msgspec.UNSET:
        if size is None:
            raise MalformedRequestError(f"{name!r}: it has neither data nor binary_data_size.")
        blob = blobs.take(name, size)
        return array_from_bytes(
            blob, name=name, datatype=tensor.datatype, shape=shape, limits=limits
        )
    if size is not None:
        raise MalformedRequestError(f"{name!r}: it has both data and binary_data_size; choose one.")
    array = array_from_json(
        data, name=name, datatype=tensor.datatype, shape=shape, booleans=booleans
    )
    if tensor.datatype == "BYTES":
        _check_items(array, name, limits)
    return array


def _check_items(array: Array, name: str, limits: WireLimits) -> None:
    items: list[str] = array.ravel().tolist()
    # A character is at most 4 bytes, so that short strings need no encoding.
    if max(map(len, items), default=0) * 4 <= limits.item_bytes:
        return
    if max(len(item.encode()) for item in items) > limits.item_bytes:
        raise MalformedRequestError(f"{name!r}: an item is longer than {limits.item_bytes} bytes.")


def rows_of(inputs: Mapping[str, Array], limits: WireLimits) -> int:
    """Return the leading dimension that all inputs share, at least 1.

    Raises:
        MalformedRequestError: They differ in it, or it is 0.
        TooManyRowsError: It is more than one request may carry.
    """
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
