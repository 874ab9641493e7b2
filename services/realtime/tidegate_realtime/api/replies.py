"""Replies as bytes, and the one body that every refusal has."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import orjson

from tidegate.errors import TidegateError
from tidegate.keys.errors import UnauthenticatedError
from tidegate_realtime.api.error_map import STATUS_BY_CODE, status_of
from tidegate_realtime.api.errors import MethodNotAllowedError, UnsupportedEncodingError
from tidegate_realtime.api.inflating import ENCODINGS

Headers = list[tuple[str, str]]

CONTENT_TYPE: Final = ("content-type", "application/json")
"""Exactly so, without a charset: one client reads an error only then (kserve)."""
BINARY_CONTENT_TYPE: Final = ("content-type", "application/octet-stream")
CLOSE: Final = ("connection", "close")


class Reply(msgspec.Struct, frozen=True):
    """What goes back over the connection; the server adds the length and the date."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One refusal, whatever it was before: an exception, or an outcome of the scheduler."""

    status: int
    code: str
    message: str
    """One sentence for a person, without any name that is internal."""
    details: Mapping[str, object] = field(default_factory=dict)
    retry_after_ms: float | None = None
    """With jitter, so that refused callers do not return together."""
    headers: Sequence[tuple[str, str]] = ()

    @classmethod
    def of_error(cls, error: TidegateError, *, retry_after_ms: float | None = None) -> "Problem":
        """Describe an error of ours."""
        return cls(
            retry_after_ms=retry_after_ms,
            status=status_of(error),
            code=error.code,
            message=str(error),
            details=error.details,
            headers=_headers_of(error),
        )

    @classmethod
    def of_bug(cls) -> "Problem":
        """Describe what must not happen, without any of its internals."""
        return cls(
            status=STATUS_BY_CODE["internal"],
            code="internal",
            message="Something went wrong in this server; its log says what, by this request id.",
        )


def _headers_of(error: TidegateError) -> Sequence[tuple[str, str]]:
    match error:
        case MethodNotAllowedError():
            return [("allow", error.allow)]
        case UnauthenticatedError():
            return [("www-authenticate", "Bearer")]
        case UnsupportedEncodingError():
            return [("accept-encoding", ", ".join(ENCODINGS))]
        case _:
            return ()


def json_reply(
    status: int, content: Mapping[str, object], *, headers: Sequence[tuple[str, str]] = ()
) -> Reply:
    """Write a small answer as JSON."""
    return Reply(status, [CONTENT_TYPE, *headers], orjson.dumps(content))


def problem_reply(
    problem: Problem, *, request_id: str, extra: Mapping[str, object] | None = None
) -> Reply:
    """Write a refusal: ``{"error", "code", "request_id", "details"}``, and Retry-After with it."""
    details = dict(problem.details)
    headers = [*problem.headers, ("x-request-id", request_id)]
    if problem.retry_after_ms is not None:
        details["retry_after_ms"] = round(problem.retry_after_ms)
        seconds = max(1, math.ceil(problem.retry_after_ms / 1000))
        headers.append(("retry-after", str(seconds)))
    content = {
        "error": problem.message,
        "code": problem.code,
        "request_id": request_id,
        "details": details,
        **(extra or {}),
    }
    return json_reply(problem.status, content, headers=headers)
