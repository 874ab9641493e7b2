"""From tensors to the message that answers ``ModelInfer``."""

from collections.abc import Sequence
from functools import lru_cache

from tidegate.oip.binary import bytes_from_array
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.protobuf.contents import write_contents
from tidegate.oip.protobuf.parameters import write_parameters
from tidegate.oip.protobuf.v2_pb2 import ModelInferResponse
from tidegate.oip.response import NamedOutput, ResponseTag, check_reply_size
from tidegate.oip.values import ONLY_BINARY


def encode_message(
    tag: ResponseTag,
    *,
    id: str | None,
    outputs: Sequence[NamedOutput],
    is_raw: bool,
    limits: WireLimits = DEFAULT_LIMITS,
) -> bytes:
    """Write a reply, in which all outputs are raw or all are typed.

    Args:
        tag: Which model made it.
        id: The request's own; a message cannot tell the empty one from none.
        outputs: In the order in which they are to appear; NaN and infinity can be said.
        is_raw: As the request was. A 16-bit float makes the reply raw all the same.
        limits: Of the reply as a whole, looked at before it is written.

    Raises:
        ReplyTooLargeError: It would be longer than a reply may be.
    """
    is_raw = is_raw or any(output.datatype in ONLY_BINARY for output in outputs)
    check_reply_size(((output.values, True) for output in outputs), limits.reply_bytes)
    message = ModelInferResponse(id=id or "")
    for output in outputs:
        tensor = message.outputs.add(
            name=output.name, datatype=output.datatype, shape=output.values.shape
        )
        if is_raw:
            message.raw_output_contents.append(bytes(bytes_from_array(output.values)))
        else:
            write_contents(output.values, output.datatype, tensor.contents)
    # The bytes of two messages, one after the other, are those of both merged.
    about = _about(tag.model_name, tag.model_version, tuple(tag.parameters.items()))
    return about + message.SerializeToString()


@lru_cache(maxsize=256)  # one entry a version, and it saves more than half of the time to encode
def _about(name: str, version: str, parameters: tuple[tuple[str, str | bool], ...]) -> bytes:
    """Write what is the same in every reply of a version."""
    message = ModelInferResponse(model_name=name, model_version=version)
    write_parameters(dict(parameters), message.parameters)
    return message.SerializeToString()
