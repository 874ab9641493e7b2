"""The usual request and its usual reply, each in one step.

The usual request is JSON and gives the numbers of a model's one input as a flat list. msgspec
parses into exactly this form, so that parsing is most of the checking: nothing here can be nested,
no boolean can stand for a number, and no name can come that is not known. So it is with the usual
instances, which are a list of numbers for each row. The usual reply is one output of numbers, whose
description is the same in each reply with so many rows.

Whatever is unusual is left to ``request`` and ``response``, and to who reads any instances; they
say what is wrong with it, if anything is. What is read and written here is what they would read and
write; a property test holds both against each other.
"""

from functools import lru_cache
from typing import Final, TypeVar

import msgspec
import orjson

from tidegate.oip.limits import UNCOUNTED_BYTES
from tidegate.oip.packing import PACKED, NumberRows
from tidegate.oip.parameters import Parameter, Parameters, check_parameters
from tidegate.oip.request import InferRequest
from tidegate.oip.response import SMALL_BYTES, EncodedReply, ResponseTag
from tidegate.oip.values import Array
from tidegate.oip.wanted import wanted_form


class _Output(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: dict[str, Parameter] | None = None


class _Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    shape: tuple[int, ...]
    datatype: str
    data: list[int | float]
    parameters: dict[str, Parameter] | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    inputs: tuple[_Tensor]
    id: str | None = None
    parameters: dict[str, Parameter] | None = None
    outputs: list[_Output] | None = None


class _Instances(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[list[int | float]]
    parameters: dict[str, Parameter] | None = None


_DECODER: Final = msgspec.json.Decoder(_Request)
_INSTANCES_DECODER: Final = msgspec.json.Decoder(_Instances)
_Wire = TypeVar("_Wire")


def usual_request(body: bytes, numbers: NumberRows) -> InferRequest | None:
    """Read a body that is JSON altogether and fits the signature, or leave it alone.

    Raises:
        MalformedRequestError, UnsupportedParameterError, BadOptionError: Its inputs are as they
            should be, and its parameters or wanted outputs are not.
    """
    wire = _decoded(body, _DECODER)
    if wire is None:
        return None
    (tensor,) = wire.inputs
    named = tensor.name == numbers.name and tensor.datatype == numbers.datatype
    if tensor.parameters or not named:
        return None
    values = numbers.pack(tensor.data)
    if values is None or values.shape != tensor.shape:
        return None
    parameters = wire.parameters or {}
    outputs, binary = wanted_form(wire.outputs, parameters)
    return InferRequest(
        id=wire.id,
        rows=tensor.shape[0],
        inputs={tensor.name: values},
        outputs=outputs,
        binary=binary,
        parameters=parameters,
    )


def usual_instances(body: bytes, numbers: NumberRows) -> tuple[Array, Parameters] | None:
    """Read ``{"instances": […]}`` that fit the signature, or leave the body alone.

    Returns:
        The input ``(rows, …)``, and the parameters of the request.

    Raises:
        MalformedRequestError, UnsupportedParameterError, BadOptionError: Its rows are as they
            should be, and its parameters are not.
    """
    wire = _decoded(body, _INSTANCES_DECODER)
    if wire is None:
        return None
    values = numbers.pack_each(wire.instances)
    if values is None:
        return None
    parameters = wire.parameters or {}
    check_parameters(parameters)
    return values, parameters


def _decoded(body: bytes, decoder: msgspec.json.Decoder[_Wire]) -> _Wire | None:
    if len(body) > UNCOUNTED_BYTES:
        return None
    try:
        return decoder.decode(body)
    except msgspec.DecodeError:
        return None


_LETTER_OF_NULL: Final = b"n"
"""orjson writes NaN and infinity as null, which is the only word among numbers."""


def usual_response(
    tag: ResponseTag, values: Array, *, id: str | None, name: str, datatype: str, binary: bool
) -> EncodedReply | None:
    """Write a reply with one output, or leave it alone.

    Args:
        tag: Which model made it.
        values: ``(rows, …)``.
        id: The request's own.
        name: Of the output.
        datatype: Of the output.
        binary: Whether the values follow the JSON as bytes.
    """
    if values.nbytes > SMALL_BYTES or datatype not in PACKED:
        return None
    begin = tag.before_outputs(id)
    if binary:
        text = begin + _described_bytes(name, datatype, values.shape, values.nbytes)
        return EncodedReply(text + values.tobytes(), len(text))
    data = orjson.dumps(values.ravel(), option=orjson.OPT_SERIALIZE_NUMPY)
    if _LETTER_OF_NULL in data:
        return None
    return EncodedReply(
        b"".join((begin, _described(name, datatype, values.shape), data, b"}]}")), None
    )


@lru_cache(maxsize=1024)  # one entry a number of rows, and a few outputs
def _described(name: str, datatype: str, shape: tuple[int, ...]) -> bytes:
    """Write an output as far as its data."""
    output = {"name": name, "datatype": datatype, "shape": shape}
    return b'[%b,"data":' % orjson.dumps(output)[:-1]


@lru_cache(maxsize=1024)  # as above
def _described_bytes(name: str, datatype: str, shape: tuple[int, ...], size: int) -> bytes:
    """Write an output whose values are behind the JSON, which ends with it."""
    parameters = {"binary_data_size": size}
    output = {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}
    return b"[%b]}" % orjson.dumps(output)
