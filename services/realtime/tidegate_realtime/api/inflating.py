"""Compressed bodies: undone in small steps, and never to more than was allowed beforehand.

A few KiB can stand for a GiB (CVE-2025-33201 and its kind), and inflating 64 MiB at once would
hold the loop for a fifth of a second. So a step makes at most ``STEP_BYTES``, its size is counted
before the next one, and others run in between.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from tidegate.oip.errors import MalformedRequestError
from tidegate_realtime.api.errors import BodyTooLargeError

STEP_BYTES: Final = 256 << 10
"""About a millisecond of inflating."""
RATIO_LIMIT: Final = 100
"""Inflated bytes by compressed ones; text of numbers has 2 to 10."""
ANY_RATIO_BYTES: Final = 1 << 20
"""Up to here the ratio is not looked at: a row of zeros is a sound one, and does no harm."""

_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
ENCODINGS: Final = tuple(_WINDOW_BITS)
"""``deflate`` is the zlib form (RFC 9110, section 8.4.1.2); the bare one that some send is not."""


async def inflate(
    body: bytes, encoding: str, *, limit_bytes: int, hold: Callable[[int], None]
) -> bytes:
    """Undo a Content-Encoding.

    Args:
        body: As it came.
        encoding: One of ``ENCODINGS``.
        limit_bytes: Of the result; inclusive.
        hold: Told of each part of the result, by its bytes, when it is there; may refuse it.

    Raises:
        BodyTooLargeError: The result is longer than the limit, or than its ratio allows.
        MalformedRequestError: The body is something else, ends early, or goes on behind its end.
    """
    allowed = min(limit_bytes, max(ANY_RATIO_BYTES, RATIO_LIMIT * len(body)))
    whole = bytearray()
    try:
        for part in _steps(body, encoding):
            hold(len(part))
            whole += part
            if len(whole) > allowed:
                raise BodyTooLargeError.of(
                    f"bytes or more when its {len(body)} bytes of {encoding} are inflated",
                    limit=allowed,
                    found=len(whole),
                    advice="Send its rows in several requests, or send it as it is.",
                )
            if max(len(whole), len(body)) >= STEP_BYTES:  # blocks may be empty and still take time
                await asyncio.sleep(0)
    except zlib.error as error:
        raise _no_stream(encoding) from error
    return bytes(whole)


def _steps(body: bytes, encoding: str) -> Iterator[bytes]:
    """Yield the result in parts of at most ``STEP_BYTES``."""
    inflater = zlib.decompressobj(_WINDOW_BITS[encoding])
    view = memoryview(body)
    for start in range(0, len(body), STEP_BYTES):
        rest: bytes | memoryview = view[start : start + STEP_BYTES]
        while rest and not inflater.eof:
            yield inflater.decompress(rest, STEP_BYTES)
            rest = inflater.unconsumed_tail
        if rest:  # behind its end
            raise _no_stream(encoding)
    yield inflater.flush()  # what a full step left inside: a few matches of 258 bytes
    if not inflater.eof or inflater.unused_data:
        raise _no_stream(encoding)


def _no_stream(encoding: str) -> MalformedRequestError:
    return MalformedRequestError(f"The body is not one whole {encoding} stream.")
