"""From the message of ``ModelInfer`` to tensors."""

from collections.abc import Iterator

from tidegate.oip.binary import array_from_bytes
from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.parameters import OF_INPUT, check_parameters
from tidegate.oip.protobuf.contents import array_from_contents
from tidegate.oip.protobuf.parameters import read_parameters
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate.oip.request import InferRequest, rows_of
from tidegate.oip.shapes import check_elements, check_shape
from tidegate.oip.values import Array
from tidegate.oip.wanted import wanted_outputs

_Tensor = ModelInferRequest.InferInputTensor


def decode_message(message: ModelInferRequest, limits: WireLimits = DEFAULT_LIMITS) -> InferRequest:
    """Read a request, whose inputs are raw or typed, but not one so and another so.

    Args:
        message: Arrays of raw inputs are views of bytes that are taken out of it once.
        limits: Of what it may carry.

    Raises:
        MalformedRequestError: It contradicts the protocol, or itself.
        NeedsBinaryError: A 16-bit float in typed contents.
        BinaryLayoutError: The bytes of a raw input are not those of its tensor.
        TooManyElementsError, TooManyRowsError: It is sound, but too large.
        UnsupportedParameterError, BadOptionError: A parameter that cannot be ignored.
    """
    parameters = read_parameters(message.parameters)
    check_parameters(parameters)
    inputs = _inputs(message, limits)
    wanted = [(output.name, read_parameters(output.parameters)) for output in message.outputs]
    return InferRequest(
        id=message.id or None,
        rows=rows_of(inputs, limits),
        inputs=inputs,
        outputs=wanted_outputs(wanted, limits, binary=True) if wanted else None,
        binary=True,  # whatever the model answers can be said in a message
        parameters=parameters,
    )


def _inputs(message: ModelInferRequest, limits: WireLimits) -> dict[str, Array]:
    count = len(message.inputs)
    if not 0 < count <= limits.tensors:
        raise MalformedRequestError(
            f"The request has {count} inputs; 1 to {limits.tensors} are accepted."
        )
    arrays = _raw(message, limits) if message.raw_input_contents else _typed(message, limits)
    inputs = dict(arrays)
    if len(inputs) < count:
        raise MalformedRequestError("An input is there twice; send each once.")
    elements = sum(array.size for array in inputs.values())
    check_elements("all inputs", elements, limits.request_elements)
    return inputs


def _raw(message: ModelInferRequest, limits: WireLimits) -> Iterator[tuple[str, Array]]:
    tensors, blobs = message.inputs, message.raw_input_contents
    if len(blobs) != len(tensors):
        raise MalformedRequestError(
            f"The request has {len(tensors)} inputs and {len(blobs)} raw_input_contents; if one "
            "input is raw, all are, in the order of the inputs."
        )
    for tensor, blob in zip(tensors, blobs, strict=True):
        name = _checked(tensor, limits)
        if tensor.HasField("contents"):
            raise MalformedRequestError(
                f"{name!r}: it has contents beside raw_input_contents; choose one for the request."
            )
        yield (
            tensor.name,
            array_from_bytes(
                blob, name=name, datatype=tensor.datatype, shape=tuple(tensor.shape), limits=limits
            ),
        )


def _typed(message: ModelInferRequest, limits: WireLimits) -> Iterator[tuple[str, Array]]:
    for tensor in message.inputs:
        yield (
            tensor.name,
            array_from_contents(
                tensor.contents,
                name=_checked(tensor, limits),
                datatype=tensor.datatype,
                shape=tuple(tensor.shape),
                limits=limits,
            ),
        )


def _checked(tensor: _Tensor, limits: WireLimits) -> str:
    """Look at everything but the values, and return what to call the tensor in an error."""
    name = tensor.name[:80]
    check_shape(name, tensor.shape, limits)
    if tensor.parameters:
        # kserve's client says binary_data_size here, too; the bytes themselves say how many.
        check_parameters(read_parameters(tensor.parameters), known=OF_INPUT)
    return name
