"""What is looked at before a byte of the body is read, and once it is there."""

from collections.abc import Callable, Collection
from typing import Final

from tidegate.oip.errors import MalformedRequestError
from tidegate_realtime.api.errors import (
    BodyTooLargeError,
    HostNotAllowedError,
    UnsupportedEncodingError,
    UriTooLongError,
)
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.host_names import name_of_host
from tidegate_realtime.api.inflating import ENCODINGS
from tidegate_realtime.api.wishes import DEADLINE_HEADER

BODY_LIMIT_BYTES: Final = 64 << 20
PATH_LIMIT_BYTES: Final = 8 << 10
HEADER_LIMIT_BYTES: Final = 16 << 10
HEADER_LIMIT_COUNT: Final = 100
_LENGTH_DIGITS: Final = 18
"""Of more than 4,300 Python would not make a number at all."""
_SINGLE: Final = ("authorization", DEADLINE_HEADER, "x-request-id")
HEADER_LIMIT_S: Final = 5.0
"""From the first byte of a request to the end of its headers."""


def check_host(host: str | None, names: Collection[str]) -> None:
    """Refuse to be addressed by a foreign name, as this machine is after DNS rebinding.

    Args:
        host: The header as it came, joined by commas if it came twice; ``None``: not at all.
        names: The only ones that are answered, in lower case and without a port.

    Raises:
        HostNotAllowedError: It is none of them, or none at all.
    """
    if name_of_host(host or "") not in names:
        raise HostNotAllowedError(
            "The Host of this request is none of this listener's names; address it by one of them."
        )


def check_single(count: Callable[[str], int]) -> None:
    """Refuse a request that says one thing twice: proxies, servers and we might each hear another.

    Args:
        count: How often a header came, by its lower-case name.

    Raises:
        MalformedRequestError: One that stands for a single value came more than once.
    """
    for name in _SINGLE:
        if count(name) > 1:
            raise MalformedRequestError(f"The header {name!r} is there more than once; send one.")


def check_path(path: str) -> None:
    """Refuse a path that is longer than any that could be served.

    Raises:
        UriTooLongError: With the limit and what was found.
    """
    if len(path) > PATH_LIMIT_BYTES:
        raise UriTooLongError.of(
            "bytes in its path", limit=PATH_LIMIT_BYTES, found=len(path), advice="Shorten it."
        )


def check_body_headers(exchange: Exchange) -> None:
    """Refuse a body by its headers alone, before it is read; else note its length and encoding.

    Raises:
        BodyTooLargeError: It is longer than the limit.
        MalformedRequestError: Its length is said in two ways, which two servers might read
            differently (request smuggling).
        UnsupportedEncodingError: It is compressed in a way that cannot be undone here.
    """
    if exchange.header("content-encoding"):
        exchange.encoding = _encoding(exchange)
    said = exchange.header("content-length")
    if said is None:
        return
    if not (said.isascii() and said.isdecimal()) or len(said) > _LENGTH_DIGITS:
        raise MalformedRequestError(f"Content-Length {said[:40]!r} is no number of bytes.")
    if exchange.header("transfer-encoding") is not None:
        raise MalformedRequestError("Send Content-Length or Transfer-Encoding, not both.")
    length_bytes = int(said)
    if length_bytes > BODY_LIMIT_BYTES:
        raise too_large(length_bytes)
    exchange.length_bytes = length_bytes


def _encoding(exchange: Exchange) -> str | None:
    encoding = ", ".join(exchange.header_values("content-encoding")).strip().lower()
    if encoding == "identity":
        return None
    if encoding not in ENCODINGS:
        raise UnsupportedEncodingError(
            f"Content-Encoding {encoding[:40]!r} cannot be undone here; send the body as it is, or "
            f"once as {' or '.join(ENCODINGS)}."
        )
    return encoding


def too_large(found: int, limit: int = BODY_LIMIT_BYTES) -> BodyTooLargeError:
    """Describe a body by its length, or by as much of it as was read."""
    return BodyTooLargeError.of(
        "bytes in its body", limit=limit, found=found, advice="Send its rows in several requests."
    )
