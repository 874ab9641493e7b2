"""The admin listener's application."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import Response
from starlette.types import ASGIApp

from tidegate import __version__
from tidegate.ids import InvalidIdError, ModelRef
from tidegate_realtime.api.admin.docs_page import render_docs
from tidegate_realtime.api.admin.errors import as_response, install_error_handlers
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.api.admin.guard import AdminGuard
from tidegate_realtime.api.admin.models import Models, install_model_routes
from tidegate_realtime.api.admin.public_api import public_paths, public_schemas
from tidegate_realtime.api.admin.repository import install_repository_routes
from tidegate_realtime.api.admin.scopes import check_admin_scopes
from tidegate_realtime.api.errors import RouteNotFoundError
from tidegate_realtime.api.explanations import explanation
from tidegate_realtime.api.lookups import Lookups
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.routing import Action, Route
from tidegate_realtime.api.served import Catalogue

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Of a page without scripts: it can load nothing and be framed by nobody."""


Window = Annotated[float, Query(ge=0.1, le=60, allow_inf_nan=False)]
"""Seconds to watch; longer than 60, a client would think that nobody answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What the admin listener shows."""

    catalogue: Catalogue
    lookups: Lookups
    collector: GatewayCollector
    observer: Observer
    public_url: str
    """Where callers reach the public listener, as an operator on this machine would write it."""
    models: Models | None = None
    """What may be loaded, unloaded and pointed elsewhere; ``None``: nothing."""
    policy: Policy = field(default_factory=Policy)
    """Whom this listener answers."""


def build_admin_app(parts: AdminParts) -> ASGIApp:
    """Build the application; the guard is around all of it."""
    app = FastAPI(
        title="Tidegate",
        version=__version__,
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    install_error_handlers(app)
    document = _describe(app, parts)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(parts.collector)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = render_docs(document, parts.catalogue, public_url=parts.public_url)
        return HTMLResponse(page, headers={"content-security-policy": _POLICY})

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/admin/v1/models/{ref}/explain", include_in_schema=False)
    async def explain_batches(ref: str, window_s: Window = 2.0) -> dict[str, Any]:
        name, sign, _ = ref.partition("@")
        at = _parsed(ref).at if sign else None
        observed = await parts.observer.watch(
            name, None if at is None else str(at), window_s=window_s
        )
        return explanation(observed)

    @app.get("/v2/health/live", include_in_schema=False)
    async def live() -> Response:
        return as_response(parts.lookups.answer(Route(Action.LIVE)))

    @app.get("/v2/health/ready", include_in_schema=False)
    async def ready() -> Response:
        return as_response(parts.lookups.answer(Route(Action.READY)))

    if parts.models is not None:
        install_model_routes(app, parts.models)
        install_repository_routes(app, parts.models)
    check_admin_scopes(getattr(route, "path", repr(route)) for route in app.routes)
    return AdminGuard(app, parts.policy, refused=parts.collector.refused)


def _parsed(ref: str) -> ModelRef:
    try:
        return ModelRef.parse(ref)
    except InvalidIdError as error:
        raise RouteNotFoundError(f"{error}.") from error


def _describe(app: FastAPI, parts: AdminParts) -> dict[str, Any]:
    """Return the OpenAPI document of what callers use."""
    document = get_openapi(
        title="Tidegate",
        version=__version__,
        summary="Predictions inside a latency objective; each says which model version made it.",
        routes=app.routes,
        servers=[{"url": parts.public_url}],
    )
    document["paths"] = public_paths()
    document["components"] = {"schemas": public_schemas()}
    return document
