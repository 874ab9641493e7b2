"""The two forms of one question: OIP ``infer`` and the friendly v1 ``:predict``.

Both turn bytes into checked tensors and outputs into bytes; what lies between is the same.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import orjson

from tidegate.inference.arrays import Array, Tensors
from tidegate.oip.errors import BinaryLayoutError, MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS
from tidegate.oip.parameters import Parameter, Parameters, check_parameters
from tidegate.oip.parsing import parse
from tidegate.oip.raw import decode_raw_request
from tidegate.oip.request import InferRequest, decode_request
from tidegate.oip.response import (
    EncodedReply,
    check_reply_size,
    encode_response,
    is_small,
    refuse_non_finite,
)
from tidegate.oip.shapes import check_rows
from tidegate.oip.usual import usual_instances, usual_request, usual_response
from tidegate_realtime.api.asked_outputs import AskedOutput, named_outputs
from tidegate_realtime.api.served import SERVED_BY, ServedVersion


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What one request asks of a model; it fits the signature."""

    inputs: Tensors
    rows: int
    id: str | None = None
    """As the caller gave it in the body."""
    outputs: tuple[AskedOutput, ...]
    """Those that are wanted, in the order of the reply."""
    parameters: Parameters = {}
    """Of the request as a whole."""


class Form(Protocol):
    """One way to ask and to be answered."""

    def decode(self, body: bytes, served: ServedVersion, *, json_bytes: int | None = None) -> Asked:
        """Read a request.

        Args:
            body: It lives as long as the arrays, which may be views of it.
            served: The version that is meant.
            json_bytes: How many bytes of the body, from its beginning, are JSON; by default all.

        Raises:
            RequestRejectedError: It cannot be read, or does not fit the model.
        """
        ...

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> EncodedReply:
        """Write the answer.

        Raises:
            NonFiniteOutputError: The model's answer cannot be said in JSON.
            ReplyTooLargeError: It would be longer than a reply may be.
        """
        ...


def asked_of(request: InferRequest, served: ServedVersion) -> Asked:
    """Hold a request of the protocol, however it came, to the signature of a version.

    Raises:
        SignatureMismatchError: The model reads other inputs, or has no such output.
        NeedsBinaryError: A 16-bit float as JSON.
        UnsupportedParameterError: A classification of what has no order.
    """
    served.model.signature.check(request.inputs)
    return _asked(request, served)


def _asked(request: InferRequest, served: ServedVersion) -> Asked:
    """Find the outputs of a request whose inputs fit."""
    return Asked(
        inputs=request.inputs,
        rows=request.rows,
        id=request.id,
        outputs=served.outputs.asked(request.outputs, binary=request.binary),
        parameters=request.parameters,
    )


class InferForm:
    """``POST /v2/models/{m}/infer``: tensors in, tensors out."""

    def decode(self, body: bytes, served: ServedVersion, *, json_bytes: int | None = None) -> Asked:
        """Read an OIP request: JSON, JSON and bytes, or the bytes of one row alone."""
        numbers = served.model.numbers
        if json_bytes is None and numbers is not None:
            usual = usual_request(body, numbers)
            if usual is not None:
                return _asked(usual, served)
        if json_bytes == 0 and body:
            request = decode_raw_request(body, served.model.signature)
        else:
            request = decode_request(body, json_bytes=json_bytes)
        return asked_of(request, served)

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> EncodedReply:
        """Write an OIP reply; the request id stands in its headers alone."""
        output = asked.outputs[0]
        if len(asked.outputs) == 1 and not output.classes:
            usual = usual_response(
                served.response_tag,
                outputs[output.name],
                id=asked.id,
                name=output.name,
                datatype=output.datatype,
                binary=output.binary,
            )
            if usual is not None:
                return usual
        named = named_outputs(asked.outputs, outputs)
        return encode_response(served.response_tag, id=asked.id, outputs=named)


class _Predict(msgspec.Struct):
    instances: list[Any]
    parameters: dict[str, Parameter] | None = None


_DECODER: Final = msgspec.json.Decoder(_Predict)
_BYTES_KEY: Final = "b64"
_JSON_BEGINNINGS: Final = (b"{", b" ", b"\t", b"\r", b"\n")
"""Of the body of a ``:predict``; no image begins like that."""


class PredictForm:
    """``POST /v1/models/{m}:predict``: rows for people in, predictions for people out."""

    def decode(self, body: bytes, served: ServedVersion, *, json_bytes: int | None = None) -> Asked:
        """Read ``{"instances": […]}``, one row each, or an image that is the whole body."""
        if json_bytes not in {None, len(body)}:
            raise BinaryLayoutError(
                f"Inference-Header-Content-Length is {json_bytes} and the body has {len(body)} "
                "bytes: :predict is JSON altogether; POST /v2/models/{name}/infer takes bytes."
            )
        numbers = served.model.listed_numbers
        usual = None if numbers is None else usual_instances(body, numbers)
        if numbers is None or usual is None:
            return instances_asked(body, served)
        values, parameters = usual
        inputs = {numbers.name: values}
        return Asked(inputs=inputs, rows=len(values), outputs=(), parameters=parameters)

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> EncodedReply:
        """Write the predictions in the order of the instances, and who made them."""
        columns = served.model.present(outputs, asked.inputs)
        if not all(map(is_small, columns.values())):
            check_reply_size(((a, False) for a in columns.values()), DEFAULT_LIMITS.reply_bytes)
        tag = served.model.tag
        reply = {
            "predictions": _predictions(columns),
            "model_name": tag.name,
            "model_version": str(tag.version),
            "model_digest": tag.digest,
            "served_by": SERVED_BY,
            "request_id": request_id,
        }
        body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY, default=_bytes_as_json)
        if b"null" in body:
            refuse_non_finite(columns.items())
        return EncodedReply(body, None)


def instances_asked(body: bytes, served: ServedVersion) -> Asked:
    """Read instances of any kind, or an image that is the whole body.

    Raises:
        RequestRejectedError: It cannot be read, or does not fit the model.
    """
    model = served.model
    if model.reads_files and body and not body.startswith(_JSON_BEGINNINGS):
        return Asked(inputs=model.tensors_from_instances([body]), rows=1, outputs=())
    wire = parse(body, _DECODER, expected='Send {"instances": […]}, one row each')
    parameters = wire.parameters or {}
    check_parameters(parameters)
    rows = len(wire.instances)
    if rows == 0:
        raise MalformedRequestError("The request has no instances; send at least one.")
    check_rows(rows, DEFAULT_LIMITS)
    instances = wire.instances
    if b'"b64"' in body:
        instances = [_with_bytes(instance) for instance in instances]
    inputs = model.tensors_from_instances(instances)
    served.unread.notice(instances, model.columns, model=str(model.tag))
    return Asked(inputs=inputs, rows=rows, outputs=(), parameters=parameters)


def _with_bytes(instance: object) -> object:
    """Turn ``{"b64": "…"}``, as a whole instance or as a column of one, into bytes."""
    if not isinstance(instance, dict):
        return instance
    if instance.keys() == {_BYTES_KEY}:
        return _bytes(instance[_BYTES_KEY])
    return {
        name: _bytes(value[_BYTES_KEY])
        if isinstance(value, dict) and value.keys() == {_BYTES_KEY}
        else value
        for name, value in instance.items()
    }


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type] # a TypeError below
    except (binascii.Error, ValueError, TypeError) as error:
        raise MalformedRequestError(f'The value of "b64" is no base64: {error}.') from error


def _predictions(columns: Mapping[str, Array]) -> object:
    """Write one value per row, or an object where there is more to say than ``prediction``.

    The values stay numpy's, so that FP32 is written with as few digits as name it exactly.
    """
    if len(columns) == 1:
        return _listed(columns["prediction"])
    names = sorted(columns, key=lambda name: name.startswith("prediction"))  # labels come first
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(_listed(columns[name]) for name in names), strict=True)
    ]


def _listed(values: Array) -> Any:  # noqa: ANN401 - an array or a list: what orjson can write
    return values.tolist() if values.dtype.kind == "O" else np.ascontiguousarray(values)


def _bytes_as_json(value: object) -> object:
    if isinstance(value, bytes):
        return {_BYTES_KEY: base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no JSON form")
