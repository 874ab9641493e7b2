"""The one error body, and the HTTP status of everything that can go wrong with a job."""

import secrets
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tidegate.errors import (
    ArtifactError,
    JobError,
    PartUnavailableError,
    RequestRejectedError,
    SettingError,
    TidegateError,
)
from tidegate.ids import InvalidIdError
from tidegate.observability import get_logger

_log: Final = get_logger(__name__)

STATUS_BY_CODE: Final = {
    "unauthenticated": 401,
    "forbidden": 403,
    "cross_site": 403,
    "job_not_found": 404,
    "model_not_found": 404,
    "conflict": 409,
    "output_taken": 409,
    "body_too_large": 413,
    "input_invalid": 422,
}
STATUS_BY_FAMILY: Final[dict[type[TidegateError], int]] = {
    PartUnavailableError: 503,
    RequestRejectedError: 400,
    SettingError: 400,  # what was asked for cannot be meant
    ArtifactError: 422,
    JobError: 500,
    TidegateError: 500,
}
"""For a code that has no row; the order is the order of asking."""
_FAULT: Final = "This is a fault of the server; its log says more."
_AWAY: Final = "A part of the service is away, such as its storage: ask again. Its log says more."


class BodyTooLargeError(RequestRejectedError):
    """A body longer than any description of a job."""

    code = "body_too_large"


class CrossSiteError(RequestRejectedError):
    """A browser sent this for a page of another site, or a form could have."""

    code = "cross_site"


class HostNotAllowedError(RequestRejectedError):
    """It was addressed by another name, as after DNS rebinding."""

    code = "host_not_allowed"


def problem_of(error: TidegateError) -> JSONResponse:
    """Write a refusal; a fault of ours is logged, and says nothing of what is inside."""
    known = STATUS_BY_CODE.get(error.code)
    status = known or next(s for kind, s in STATUS_BY_FAMILY.items() if isinstance(error, kind))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("request_failed", code=error.code, reason=str(error))
        is_away = status == HTTPStatus.SERVICE_UNAVAILABLE
        return problem(status, error.code, _AWAY if is_away else _FAULT)
    return problem(status, error.code, str(error))


def problem(status: int, code: str, message: str) -> JSONResponse:
    """Write the one error body."""
    content = {"error": message, "code": code, "request_id": secrets.token_hex(8), "details": {}}
    return JSONResponse(content, status)


def install_error_handlers(app: FastAPI) -> None:
    """Let no error leave in a form of the framework's."""
    app.add_exception_handler(TidegateError, _refusal)
    app.add_exception_handler(InvalidIdError, _no_such_id)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _bug)


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TidegateError)
    return problem_of(error)


async def _no_such_id(_: Request, error: Exception) -> JSONResponse:
    return problem(404, "route_not_found", str(error))


async def _framework_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:  # noqa: PLR2004 - HTTP's own
        return problem(405, "method_not_allowed", "This path has no such method.")
    return problem(404, "route_not_found", "Nothing is served at this path.")


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return problem(400, "malformed_request", f"The request cannot be read: {wrong}.")


async def _bug(request: Request, error: Exception) -> JSONResponse:
    _log.error("request_failed", path=request.url.path, exc_info=error)
    return problem(500, "internal", _FAULT)
