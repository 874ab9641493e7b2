"""Compressed replies, for callers far away; off unless the settings say otherwise.

Only predictions are compressed: tritonclient offers gzip with every call, and unpacks neither
metadata nor errors (seen with 2.73).
"""

import asyncio
import zlib
from typing import Final

from tidegate_realtime.api.replies import Reply

_SMALLEST_BYTES: Final = 1 << 10
"""Below it the headers would weigh more than what is saved."""
_INLINE_BYTES: Final = 32 << 10
"""Above it, about half a millisecond, a thread does it."""
_LEVEL: Final = 1
"""Numbers hardly shrink further with more effort."""
_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""In the order of preference; ``deflate`` is the zlib form (RFC 9110, section 8.4.1.2)."""


def accepted_encoding(offered: str | None) -> str | None:
    """Choose from an ``Accept-Encoding`` (RFC 9110, section 12.5.3); ``None``: as it is."""
    if not offered:
        return None
    wanted = set()
    for part in offered.lower().split(","):
        name, _, weight = part.partition(";")
        if weight.replace(" ", "").removeprefix("q=").strip("0.") or not weight:  # q=0 is a no
            wanted.add(name.strip())
    return next((encoding for encoding in _WINDOW_BITS if encoding in wanted), None)


async def deflated(reply: Reply, encoding: str | None) -> Reply:
    """Compress the reply to a prediction, if that is worth it.

    ``Inference-Header-Content-Length`` stays what it was: it counts before compression. Cancelling
    leaves nothing behind but a thread that ends by itself.
    """
    if encoding is None or len(reply.body) <= _SMALLEST_BYTES:
        return reply
    if len(reply.body) <= _INLINE_BYTES:
        body = _compress(reply.body, encoding)
    else:
        body = await asyncio.to_thread(_compress, reply.body, encoding)
    headers = [*reply.headers, ("content-encoding", encoding), ("vary", "accept-encoding")]
    return Reply(reply.status, headers, body)


def _compress(body: bytes, encoding: str) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=_WINDOW_BITS[encoding])
    return packer.compress(body) + packer.flush()
