"""The application: every route asks ``Jobs``, in a thread of its own, which asks the store."""

from collections.abc import Collection
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
from fastapi import FastAPI, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp

from tidegate import __version__
from tidegate.errors import RequestRejectedError
from tidegate.keys.access import Access, Principal
from tidegate.observability import get_logger
from tidegate_batch.api.errors import BodyTooLargeError, install_error_handlers
from tidegate_batch.api.guard import PRINCIPAL, JobsGuard

_log: Final = get_logger(__name__)
BODY_LIMIT_BYTES: Final = 256 << 10
"""A job names its inputs by globs and prefixes; this is thousands of them."""
_MOST_JOBS: Final = 1000
_MOST_LETTERS: Final = 1000

Body: TypeAlias = dict[str, Any]
_One: TypeAlias = bool | int | float | str | None
_Sent: TypeAlias = dict[str, _One | list[_One]]
"""So flat that no body is too deep to be read; ``check_spec`` knows what each option takes."""
Limit = Annotated[int, Query(ge=1, le=_MOST_JOBS)]
States = Annotated[list[str] | None, Query()]
Letters = Annotated[int, Query(ge=0, le=_MOST_LETTERS)]


class Jobs(Protocol):
    """What is asked; every answer is what the command of that name prints with ``--json``.

    Raises:
        ForbiddenError: The key of who asks is not for the model of that job.
        JobNotFoundError: There is no such job, or it is another tenant's.
    """

    def submit(self, wanted: Body, who: Principal) -> tuple[Body, bool]:
        """Make a job and queue it; and say whether it is new."""
        ...

    def list(self, states: Collection[str], *, limit: int, who: Principal) -> Body:
        """List the newest jobs."""
        ...

    def get(self, job: str, who: Principal) -> Body:
        """Say how a job is, and how fast."""
        ...

    def cancel(self, job: str, who: Principal) -> Body:
        """Stop a job."""
        ...

    def resume(self, job: str, who: Principal) -> Body:
        """Queue a job that was stopped."""
        ...

    def dead_letters(self, job: str, *, limit: int, who: Principal) -> Body:
        """Say which rows have no answer, and why."""
        ...


def build_app(jobs: Jobs, access: Access, *, names: Collection[str] = ()) -> ASGIApp:
    """Build the application; the guard is around all of it."""
    app = FastAPI(
        title="Tidegate jobs",
        version=__version__,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    install_error_handlers(app)

    @app.post("/v1/jobs", status_code=201)
    async def submit(request: Request) -> Response:
        """Make a job; the body is what ``--spec`` would read. 200: the client token found it."""
        wanted = await _read(request)
        answer, is_new = await run_in_threadpool(jobs.submit, wanted, _who(request))
        _log.info("job_submitted", by=_who(request).key_id, job_id=answer["job"], is_new=is_new)
        headers = {"location": f"/v1/jobs/{answer['job']}"}
        return _reply(answer, 201 if is_new else 200, headers)

    @app.get("/v1/jobs")
    def every_job(request: Request, state: States = None, limit: Limit = 20) -> Any:  # noqa: ANN401 - FastAPI reads it
        """List the newest jobs."""
        return _reply(jobs.list(state or (), limit=limit, who=_who(request)))

    @app.get("/v1/jobs/{job}")
    def one_job(job: str, request: Request) -> Any:  # noqa: ANN401 - FastAPI reads it
        """Say how far a job is; ``pace`` has speed, and the time left with its range."""
        return _reply(jobs.get(job, _who(request)))

    @app.post("/v1/jobs/{job}/cancel")
    def cancel(job: str, request: Request) -> Any:  # noqa: ANN401 - FastAPI reads it
        """Stop a job within about a second; ``resume`` goes on."""
        answer = jobs.cancel(job, _who(request))
        _log.info("job_cancelled", by=_who(request).key_id, job_id=job)
        return _reply(answer)

    @app.post("/v1/jobs/{job}/resume", status_code=202)
    def resume(job: str, request: Request) -> Any:  # noqa: ANN401 - FastAPI reads it
        """Queue a job that failed, was cancelled or lost its driver."""
        answer = jobs.resume(job, _who(request))
        _log.info("job_resumed", by=_who(request).key_id, job_id=job)
        return _reply(answer, 202)

    @app.get("/v1/jobs/{job}/dead-letters")
    def dead_letters(job: str, request: Request, limit: Letters = 20) -> Any:  # noqa: ANN401 - FastAPI reads it
        """Count rows without an answer by reason, and show the first."""
        return _reply(jobs.dead_letters(job, limit=limit, who=_who(request)))

    @app.get("/v2/health/live", include_in_schema=False)
    @app.get("/v2/health/ready", include_in_schema=False)
    async def healthy() -> Response:
        return _reply({})

    return JobsGuard(app, access, names=names)


async def _read(request: Request) -> Body:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_LIMIT_BYTES:
            raise BodyTooLargeError(f"The body has more than {BODY_LIMIT_BYTES} bytes.")
    try:
        return msgspec.json.decode(body, type=_Sent)
    except msgspec.ValidationError as error:
        raise RequestRejectedError(
            f'Send an object of options, such as {{"model": "risk@stable", …}}: {error}.'
        ) from error
    except msgspec.DecodeError as error:
        raise RequestRejectedError(f"The body is no JSON: {error}.") from error


def _who(request: Request) -> Principal:
    who = getattr(request.state, PRINCIPAL)
    assert isinstance(who, Principal)
    return who


def _reply(answer: Body, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    content = msgspec.json.encode(answer, enc_hook=str)
    return Response(content, status, headers, media_type="application/json")
