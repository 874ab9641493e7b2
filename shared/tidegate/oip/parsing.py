"""From bytes to a typed document, or to one of two refusals."""

import re
from typing import Final, TypeVar

import msgspec

from tidegate.oip.errors import MalformedJsonError, MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits, check_raw_json

_T = TypeVar("_T")

_HALF: Final = re.compile(
    rb"(?:[^\\]++|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u(?![dD][89a-fA-F])|[^u]))*+(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
"""Up to the first escape that is half of a surrogate pair without the other half."""
_LOOKED_AT_BYTES: Final = 256 << 10
"""For it, which takes 10 ms; the loop waits meanwhile."""
_PLACE: Final = re.compile(r"\(byte (\d+)\)")
_NO_NUMBERS: Final = (b"NaN", b"Infinity")


def parse(
    body: bytes,
    decoder: msgspec.json.Decoder[_T],
    *,
    expected: str,
    limits: WireLimits = DEFAULT_LIMITS,
) -> _T:
    """Parse a body whose raw bytes pass the limits.

    msgspec checks names and types while it parses, which is as fast as orjson alone, which checks
    nothing.

    Args:
        body: JSON of any origin.
        decoder: Of the document that is wanted.
        expected: The beginning of the sentence that refuses another document.
        limits: Looked at first.

    Raises:
        TooManyElementsError: Too much for the event loop.
        MalformedJsonError: It is no JSON (NaN and Infinity are none), or nested too deeply.
        MalformedRequestError: JSON, but another document.
    """
    check_raw_json(body, limits)
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        _check_is_json(body)  # what comes after the place of the error was not looked at
        raise MalformedRequestError(f"{expected}: {error}.") from error
    except msgspec.DecodeError as error:
        raise _no_json(body, error) from error


def _check_is_json(body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise _no_json(body, error) from error


def _no_json(body: bytes, error: msgspec.DecodeError) -> MalformedJsonError:
    said = _half_a_character(body) or _no_number(body, error) or f"{error}."
    return MalformedJsonError(f"The body is no JSON: {said}")


def _half_a_character(body: bytes) -> str | None:
    """Name it, for msgspec calls it the end of the body."""
    found = _HALF.match(body, 0, _LOOKED_AT_BYTES)
    if found is None:
        return None
    return (
        f"byte {found.start('half')} begins {found['half'].decode()}, half of a surrogate pair "
        "without the other half, which is no character; write both, or the character itself."
    )


def _no_number(body: bytes, error: msgspec.DecodeError) -> str | None:
    place = _PLACE.search(str(error))
    at = int(place[1]) if place else len(body)
    for name in _NO_NUMBERS:
        if body.startswith(name, at):
            return (
                f"byte {at} begins {name.decode()}, which JSON cannot say; send the tensor as "
                "bytes, where the model takes it."
            )
    return None
