"""What a caller gives besides rows, and whether it can be meant."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from tidegate.client.errors import BadRequestError

Headers = tuple[tuple[str, str], ...]

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|", re.ASCII)
_ARGUMENTS: Final = {"tidegate-deadline-ms": "deadline_ms=…", "x-request-id": "request_id=…"}
"""Headers that are always sent for an argument of a call."""
_OF_THE_CLIENT: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("expect", "host", "inference-header-content-length", "keep-alive", "proxy-connection"),
        *("trailer", "transfer-encoding", "upgrade"),
    }
)
"""Those that say how a body travels, which only who sends it knows."""
_MOST_MS: Final = 99_999_999
"""What the header of a deadline can say: 27 hours."""


def check_address(url: str) -> str:
    """Return a gateway's address without a slash at its end.

    Raises:
        BadRequestError: It is no address of an HTTP server.
    """
    if "@" in url:  # not repeated: it may be a password
        raise BadRequestError("The address carries a name or password; give a key instead: key=….")
    if not url.isascii() or not _is_address(url):
        raise BadRequestError(
            f"{url[:200]!r} is no address of a gateway; write it as http://127.0.0.1:8000, the "
            "public listener."
        )
    return url.rstrip("/")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        return False
    return bool(known) and not parts.query and not parts.fragment and " " not in url


def check_ms(name: str, milliseconds: float) -> None:
    """Refuse a time that is none, or that the deadline's header cannot say.

    Raises:
        BadRequestError: It is below 1 ms, too long, or no number.
    """
    if not 1 <= milliseconds <= _MOST_MS:
        raise BadRequestError(
            f"{name} is {milliseconds!r}; it is in milliseconds, from 1 to {_MOST_MS}."
        )


def check_count(name: str, count: int) -> int:
    """Return a number of tries or connections.

    Raises:
        BadRequestError: It is below 1.
    """
    if count < 1:
        raise BadRequestError(f"{name} is {count!r}; it is a whole number, at least 1.")
    return count


def key_header(key: str | None) -> tuple[tuple[str, str], ...]:
    """Return the header by which a caller proves itself.

    Raises:
        BadRequestError: It cannot be a key; the message does not repeat it.
    """
    if key is None:
        return ()
    if not key or not _HEADER_VALUE.fullmatch(key):
        raise BadRequestError("The key is empty, or has characters that no key has; see key=….")
    return (("Authorization", f"Bearer {key}"),)


def checked_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return headers of the caller's own.

    Raises:
        BadRequestError: A name or value cannot stand in a header, or the client sets it itself.
    """
    for name, value in headers.items():
        if name.lower() in _ARGUMENTS:
            raise BadRequestError(f"Give {_ARGUMENTS[name.lower()]} in place of the header {name}.")
        if name.lower() in _OF_THE_CLIENT:
            raise BadRequestError(
                f"The header {name} is set by the client itself, which knows the body: omit it."
            )
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise BadRequestError(
                f"The header {name[:80]!r} cannot be sent: a name is letters, digits and dashes, a "
                "value printable ASCII."
            )
    return tuple(headers.items())


def check_request_id(request_id: str) -> None:
    """Refuse a name that a gateway would replace.

    Raises:
        BadRequestError: It has other characters, or too many.
    """
    if not _REQUEST_ID.fullmatch(request_id):
        raise BadRequestError(
            f"request_id is {request_id[:130]!r}; a gateway keeps only 1 to 128 of "
            "A-Z a-z 0-9 . _ : - and would make up another one."
        )
