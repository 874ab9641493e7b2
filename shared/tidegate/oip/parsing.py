"""From bytes to a typed document, or to one of two refusals."""

from typing import TypeVar

import msgspec

from tidegate.oip.errors import MalformedJsonError, MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits, check_raw_json

_T = TypeVar("_T")


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
        raise _no_json(error) from error


def _check_is_json(body: bytes) -> None:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise _no_json(error) from error


def _no_json(error: msgspec.DecodeError) -> MalformedJsonError:
    return MalformedJsonError(f"The body is no JSON: {error}.")
