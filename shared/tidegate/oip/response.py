"""From tensors to the bytes of an ``infer`` reply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from tidegate.oip.binary import bytes_from_array
from tidegate.oip.errors import NonFiniteOutputError, ReplyTooLargeError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.scanning import has_word
from tidegate.oip.values import Array, json_from_array


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTag:
    """Which model made the reply; the same for all replies of one version."""

    model_name: str
    model_version: str
    """A decimal number, as a string."""
    parameters: Mapping[str, str | bool]
    """Of the whole reply. Outputs carry none of ours: one client takes an output that has
    ``parameters`` without ``binary_data_size`` for a fatal error (perf_analyzer)."""
    _before_id: bytes = field(init=False)
    _behind_id: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Write what never changes."""
        model = {"model_name": self.model_name, "model_version": self.model_version}
        object.__setattr__(self, "_before_id", orjson.dumps(model)[:-1])
        behind_id = b',"parameters":%b,"outputs":' % orjson.dumps(self.parameters)
        object.__setattr__(self, "_behind_id", behind_id)

    def before_outputs(self, id: str | None) -> bytes:
        """Return how the JSON of a reply begins, as far as the list of its outputs."""
        if id is None:
            return self._before_id + self._behind_id
        return b'%b,"id":%b%b' % (self._before_id, orjson.dumps(id), self._behind_id)


class NamedOutput(msgspec.Struct, frozen=True):
    """One output of a reply."""

    name: str
    datatype: str
    values: Array
    """``(rows, …)``; of ``str`` where the datatype is BYTES."""
    binary: bool = False
    """Its bytes follow the JSON; a 16-bit float can travel in no other way."""


class EncodedReply(msgspec.Struct, frozen=True):
    """The bytes of a reply; a struct, which takes a third of the time of a tuple with names."""

    body: bytes
    json_bytes: int | None
    """How many of them are JSON, if bytes of tensors follow; ``None``: all."""


_WIDEST_VALUE: Final = 25
"""Characters of an FP64 in JSON with its comma; of an INT64 21, of an FP32 16."""
SMALL_BYTES: Final = 128 << 10
"""Of an output of numbers; see ``is_small``."""


def encode_response(
    tag: ResponseTag,
    *,
    id: str | None,
    outputs: Sequence[NamedOutput],
    limits: WireLimits = DEFAULT_LIMITS,
) -> EncodedReply:
    """Write a reply: JSON, and behind it the bytes of the outputs that are wanted so.

    Args:
        tag: Which model made it.
        id: The request's own; left out where the request had none.
        outputs: In the order in which they are to appear; 16-bit floats as bytes.
        limits: Of the reply as a whole, looked at before it is written.

    Raises:
        NonFiniteOutputError: A value is NaN or infinite, which JSON cannot say.
        ReplyTooLargeError: It would be longer than a reply may be.
    """
    if not all(is_small(output.values) for output in outputs):
        check_reply_size(((o.values, o.binary) for o in outputs), limits.reply_bytes)
    reply: dict[str, Any] = {"model_name": tag.model_name, "model_version": tag.model_version}
    if id is not None:
        reply["id"] = id
    reply["parameters"] = tag.parameters
    blobs: list[memoryview] = []
    reply["outputs"] = [_described(output, blobs) for output in outputs]
    text = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if has_word(text, b"null", at=1):
        refuse_non_finite((o.name, o.values) for o in outputs if not o.binary)
    if not blobs:
        return EncodedReply(text, None)
    return EncodedReply(b"".join([text, *blobs]), len(text))


def _described(output: NamedOutput, blobs: list[memoryview]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": output.name,
        "datatype": output.datatype,
        "shape": output.values.shape,
    }
    if output.binary:
        blob = bytes_from_array(output.values)
        blobs.append(blob)
        described["parameters"] = {"binary_data_size": len(blob)}
    else:
        described["data"] = json_from_array(output.values)
    return described


def is_small(values: Array) -> bool:
    """Whether as many as a reply may have are below its limit whatever they hold."""
    return values.nbytes <= SMALL_BYTES and values.dtype.kind != "O"


def check_reply_size(values: Iterable[tuple[Array, bool]], limit: int) -> None:
    """Reckon how long a reply becomes, before anything of it is made.

    Args:
        values: Of each output, and whether it goes as bytes. Strings are counted by characters.
        limit: In bytes.

    Raises:
        ReplyTooLargeError: With the limit and what was reckoned.
    """
    reckoned = sum([_reckoned(array, binary=binary) for array, binary in values])
    if reckoned > limit:
        raise ReplyTooLargeError.of_bytes(reckoned, limit=limit)


def _reckoned(values: Array, *, binary: bool) -> int:
    if values.dtype.kind == "O":
        return sum(map(len, values.ravel())) + 4 * values.size
    return int(values.nbytes) if binary else int(values.size) * _WIDEST_VALUE


def refuse_non_finite(arrays: Iterable[tuple[str, Array]]) -> None:
    """Look at every value, because the written JSON holds a ``null``.

    orjson writes NaN and infinity as null. To search the bytes costs a tenth of looking at the
    values, which is left to the replies where a null was found (perhaps in a string).

    Raises:
        NonFiniteOutputError: A floating-point value is not finite.
    """
    for name, values in arrays:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise NonFiniteOutputError.of_output(name)
