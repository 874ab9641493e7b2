"""What a gateway replied: a prediction, a description of a model, or why there is neither."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from sys import maxsize
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from tidegate.client.errors import (
    BadRequestError,
    ClientError,
    DeadlineExpiredError,
    NotFoundError,
    Refusal,
    RejectedError,
    ServerFaultError,
    UnauthorizedError,
    as_float,
)
from tidegate.client.questions import HEADER_LENGTH
from tidegate.client.tensors import Array
from tidegate.client.transport import HttpReply
from tidegate.errors import RequestRejectedError
from tidegate.oip.binary import array_from_bytes
from tidegate.oip.limits import WireLimits

_T = TypeVar("_T")

_OK: Final = 200
_NOT_READY: Final = 503
_ERRORS: Final[Mapping[int, type[ClientError]]] = {
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    429: RejectedError,
    503: RejectedError,
    504: DeadlineExpiredError,
}
_REQUEST_FAULTS: Final = range(400, 500)
_SECONDS: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_LENGTH: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_MS_PER_SECOND: Final = 1_000
_ANY_SIZE: Final = WireLimits(**{limit.name: maxsize for limit in fields(WireLimits)})
"""The tensors are here already, so that their own bytes bound them."""
_SHOWN: Final = 200
"""Characters of a reply that is no gateway's."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a model answered, and exactly which one it was."""

    answer: Sequence[Any] | Mapping[str, Array] = field(repr=False)
    """As it came: a value per row, or arrays ``(rows, …)`` by name."""
    model_name: str
    """The model that made it, which is another one where a stand-in answered."""
    model_version: int
    model_digest: str
    """``sha256:`` and 64 hex digits, of everything that belongs to the version."""
    served_by: str
    """``model``, or what stood in for it: ``fresh_cache``, ``stale_cache``, ``cheap_model``."""
    request_id: str
    """Names the request in the gateway's log."""

    @cached_property
    def predictions(self) -> Sequence[Any]:
        """One value per row, in the order of the rows; objects where there are several outputs."""
        if not isinstance(self.answer, Mapping):
            return self.answer
        columns = {name: array.tolist() for name, array in self.answer.items()}
        if len(columns) == 1:
            return next(iter(columns.values()))
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    @cached_property
    def outputs(self) -> Mapping[str, Array]:
        """The same by output, as arrays ``(rows, …)``; after asking by arrays they are read-only.

        A single bare output is called ``prediction`` after asking by columns or instances.
        """
        if isinstance(self.answer, Mapping):
            return self.answer
        if self.answer and all(isinstance(row, dict) for row in self.answer):
            return {name: _array([row.get(name) for row in self.answer]) for name in self.answer[0]}
        return {"prediction": _array(self.answer)}


class TensorMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """One input or output."""

    name: str
    datatype: str
    """As the protocol names them: ``FP32``, ``INT64``, ``BYTES``, …"""
    shape: tuple[int, ...]
    """``-1`` where any length goes; the leading one, the rows, is included."""


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a model reads, answers and promises."""

    name: str
    versions: tuple[str, ...]
    """Those that are loaded."""
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]
    parameters: dict[str, Any] = {}
    """The objective (``slo_ms``, ``percentile``), the limits in force and what they come from."""


class _Predicted(msgspec.Struct):
    predictions: list[Any]
    model_name: str
    model_version: str
    model_digest: str
    served_by: str
    request_id: str


class _Output(msgspec.Struct):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: dict[str, Any] = {}


class _Inferred(msgspec.Struct):
    model_name: str
    model_version: str
    parameters: dict[str, Any]
    outputs: list[_Output]


class _Models(msgspec.Struct):
    models: list[str]


class _Error(msgspec.Struct):
    error: str
    code: str = ""
    request_id: str = ""
    details: dict[str, Any] = {}


def read_predictions(reply: HttpReply) -> Prediction:
    """Read the answer to columns or instances.

    Raises:
        ClientError: It is none; the class says whose fault that is.
    """
    found = _decoded(_checked(reply).body, _Predicted)
    answer = found.predictions
    if b'"b64"' in reply.body:
        answer = _with_bytes(answer)
    return Prediction(
        answer=answer,
        model_name=found.model_name,
        model_version=_version(found.model_version),
        model_digest=found.model_digest,
        served_by=found.served_by,
        request_id=found.request_id,
    )


def read_arrays(reply: HttpReply) -> Prediction:
    """Read the answer to arrays.

    Raises:
        ClientError: It is none; the class says whose fault that is.
    """
    head, blobs = _parted(_checked(reply))
    found = _decoded(head, _Inferred)
    return Prediction(
        answer=_arrays(found.outputs, blobs),
        model_name=found.model_name,
        model_version=_version(found.model_version),
        model_digest=str(found.parameters.get("tidegate_digest", "")),
        served_by=str(found.parameters.get("tidegate_served_by", "")),
        request_id=reply.headers.get("x-request-id", ""),
    )


def read_metadata(reply: HttpReply) -> ModelMetadata:
    """Read the description of a model; raises as ``read_predictions`` does."""
    return _decoded(_checked(reply).body, ModelMetadata)


def read_models(reply: HttpReply) -> list[str]:
    """Read the names of what is served; raises as ``read_predictions`` does."""
    return _decoded(_checked(reply).body, _Models).models


def read_readiness(reply: HttpReply) -> bool:
    """Read whether work is taken; raises as ``read_predictions`` does, but not for "no"."""
    if reply.status == _NOT_READY:
        return False
    return _checked(reply).status == _OK


def _checked(reply: HttpReply) -> HttpReply:
    if reply.status == _OK:
        return reply
    refusal = _refusal(reply)
    if refusal is None:
        shown = reply.body[:_SHOWN].decode("utf-8", "replace")
        refusal = Refusal(
            status=reply.status,
            message=f"Status {reply.status} from something that is no gateway: {shown!r}",
            retry_after_ms=_seconds_ms(reply),
        )
    raise _error_class(refusal).of_refusal(refusal)


def _error_class(refusal: Refusal) -> type[ClientError]:
    if refusal.code == "deadline_too_short":  # 422, but of the same fault, and the same cure
        return DeadlineExpiredError
    default = BadRequestError if refusal.status in _REQUEST_FAULTS else ServerFaultError
    return _ERRORS.get(refusal.status, default)


def _refusal(reply: HttpReply) -> Refusal | None:
    try:
        found = msgspec.json.decode(reply.body, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    finer_ms = as_float(found.details.get("retry_after_ms"))
    return Refusal(
        status=reply.status,
        code=found.code,
        message=found.error,
        request_id=found.request_id,
        details=found.details,
        retry_after_ms=_seconds_ms(reply) if finer_ms is None else finer_ms,
    )


def _seconds_ms(reply: HttpReply) -> float | None:
    """Read ``Retry-After``; a date, which a proxy may send, counts as nothing."""
    text = reply.headers.get("retry-after", "")
    return float(int(text) * _MS_PER_SECOND) if _SECONDS.fullmatch(text) else None


def _decoded(body: bytes | memoryview, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerFaultError.of_nonsense(str(error)) from None


def _version(text: str) -> int:
    if not text.isdecimal():
        raise ServerFaultError.of_nonsense(f"model_version is {text[:40]!r}")
    return int(text)


def _parted(reply: HttpReply) -> tuple[memoryview, memoryview]:
    """Part the JSON from the tensors behind it."""
    body = memoryview(reply.body)
    text = reply.headers.get(HEADER_LENGTH.lower(), str(len(body)))
    if not _LENGTH.fullmatch(text) or int(text) > len(body):
        raise ServerFaultError.of_nonsense(
            f"{HEADER_LENGTH} is {text[:40]!r}, of {len(body)} bytes"
        )
    return body[: int(text)], body[int(text) :]


def _arrays(outputs: Sequence[_Output], blobs: memoryview) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    at = 0
    for output in outputs:
        size = output.parameters.get("binary_data_size")
        if type(size) is not int or not 0 <= size <= len(blobs) - at:
            raise ServerFaultError.of_nonsense(
                f"output {output.name!r} has binary_data_size {size!r}, of {len(blobs) - at} bytes"
            )
        arrays[output.name] = _tensor(output, blobs[at : at + size])
        at += size
    return arrays


def _tensor(output: _Output, blob: memoryview) -> Array:
    if min(output.shape, default=0) < 0:
        raise ServerFaultError.of_nonsense(f"output {output.name!r} has shape {output.shape}")
    try:
        return array_from_bytes(
            blob, name=output.name, datatype=output.datatype, shape=output.shape, limits=_ANY_SIZE
        )
    except RequestRejectedError as error:  # so the codec calls what does not fit together
        raise ServerFaultError.of_nonsense(str(error)) from None


def _array(values: Sequence[Any]) -> Array:
    try:
        return np.array(values)
    except ValueError:  # rows of different lengths
        array = np.empty(len(values), object)
        array[:] = values
        return array


def _with_bytes(value: Any) -> Any:  # noqa: ANN401 - any JSON value, at any depth
    match value:
        case {"b64": str(text), **others} if not others:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ServerFaultError.of_nonsense(f"b64 that is none: {error}") from None
        case dict():
            return {name: _with_bytes(item) for name, item in value.items()}
        case list():
            return [_with_bytes(item) for item in value]
        case _:
            return value
