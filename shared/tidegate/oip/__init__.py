"""The Open Inference Protocol on the wire: bytes to tensors and back, and nothing else.

``tidegate.oip.request`` reads a request (JSON, and behind it the bytes of binary tensors, whose
places ``layout`` knows), ``tidegate.oip.response`` writes a reply, and ``tidegate.oip.limits`` is
looked at before anything is parsed; ``tidegate.oip.usual`` does in one step what nearly every
request needs. All of it is pure: what cannot be read is a ``RequestRejectedError`` of
``tidegate.oip.errors``, one sentence for the caller.
"""

from tidegate.oip.limits import WireLimits, check_raw_json
from tidegate.oip.request import InferRequest, decode_request
from tidegate.oip.response import EncodedReply, NamedOutput, ResponseTag, encode_response
from tidegate.oip.wanted import WantedOutput

__all__ = [
    "EncodedReply",
    "InferRequest",
    "NamedOutput",
    "ResponseTag",
    "WantedOutput",
    "WireLimits",
    "check_raw_json",
    "decode_request",
    "encode_response",
]
