"""The one error body, also for what the framework refuses by itself."""

import secrets

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.observability import get_logger
from tidegate_realtime.api.errors import MethodNotAllowedError, RouteNotFoundError
from tidegate_realtime.api.replies import Problem, Reply, problem_reply

log = get_logger(__name__)
_METHOD_NOT_ALLOWED = 405


def as_response(reply: Reply) -> Response:
    """Hand a reply of ours to the framework."""
    return Response(reply.body, reply.status, dict(reply.headers))


def problem_response(problem: Problem) -> Response:
    """Write a refusal."""
    return as_response(problem_reply(problem, request_id=secrets.token_hex(8)))


def install_error_handlers(app: FastAPI) -> None:
    """Let no error of the framework's leave in a form of its own."""
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(TidegateError, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _bug)


async def _framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == _METHOD_NOT_ALLOWED:
        allow = (error.headers or {}).get("Allow", "GET").split(", ")
        return problem_response(
            Problem.of_error(MethodNotAllowedError.of(request.method, allow=allow))
        )
    return problem_response(Problem.of_error(RouteNotFoundError("Nothing is served at this path.")))


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, TidegateError)
    return problem_response(Problem.of_error(error))


async def _invalid(_: Request, __: Exception) -> Response:
    return problem_response(
        Problem(status=400, code="malformed_request", message="The request cannot be read.")
    )


async def _bug(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    return problem_response(Problem.of_bug())
