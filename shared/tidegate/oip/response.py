"""From tensors to the bytes of an ``infer`` reply."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import orjson

from tidegate.oip.errors import NonFiniteOutputError
from tidegate.oip.values import Array, json_from_array


class ResponseTag(msgspec.Struct, frozen=True, kw_only=True):
    """Which model made the reply; the same for all replies of one version."""

    model_name: str
    model_version: str
    """A decimal number, as a string."""
    parameters: Mapping[str, str | bool]
    """Of the whole reply. Outputs carry none of ours: one client takes an output that has
    ``parameters`` without ``binary_data_size`` for a fatal error (perf_analyzer)."""


class NamedOutput(msgspec.Struct, frozen=True):
    """One output of a reply."""

    name: str
    datatype: str
    values: Array
    """``(rows, …)``; of ``str`` where the datatype is BYTES."""


def encode_response(tag: ResponseTag, *, id: str | None, outputs: Sequence[NamedOutput]) -> bytes:
    """Write a reply as JSON.

    Args:
        tag: Which model made it.
        id: The request's own; left out where the request had none.
        outputs: In the order in which they are to appear; no 16-bit floats.

    Raises:
        NonFiniteOutputError: A value is NaN or infinite, which JSON cannot say.
    """
    reply: dict[str, Any] = {"model_name": tag.model_name, "model_version": tag.model_version}
    if id is not None:
        reply["id"] = id
    reply["parameters"] = tag.parameters
    reply["outputs"] = [
        {
            "name": output.name,
            "datatype": output.datatype,
            "shape": output.values.shape,
            "data": json_from_array(output.values),
        }
        for output in outputs
    ]
    body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body:
        refuse_non_finite((output.name, output.values) for output in outputs)
    return body


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
