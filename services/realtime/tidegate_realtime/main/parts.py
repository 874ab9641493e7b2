"""Puts the gateway together; the only place that knows every adapter."""

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.inference.model import Model
from tidegate.units import ms_to_ns, ns_to_seconds
from tidegate_realtime.api.asgi import AsgiApp
from tidegate_realtime.api.endpoint import Endpoint
from tidegate_realtime.api.lookups import Lookups
from tidegate_realtime.api.metrics import GatewayMetrics, MeasuredBackend
from tidegate_realtime.api.predicting import Predictor
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.served import Catalogue, Readiness, ServedVersion
from tidegate_realtime.api.servers.port import HttpServer
from tidegate_realtime.api.servers.sockets import check_free, claim
from tidegate_realtime.api.sweeper import Sweeper
from tidegate_realtime.backends.onnx import OnnxBackend
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.main.loading import LoadedModels
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.runtime.driver import BatchDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """One of each, wired; nothing listens yet."""

    clock: Clock
    catalogue: Catalogue
    backends: Sequence[MeasuredBackend]
    """One per version of the catalogue, in its order."""
    readiness: Readiness
    metrics: GatewayMetrics
    lookups: Lookups
    endpoint: Endpoint
    sweeper: Sweeper


def build_parts(
    plan: Plan, loaded: LoadedModels, *, clock: Clock, draw: Callable[[], float]
) -> Parts:
    """Wire everything behind the listeners; call it on the running loop.

    The drivers hold threads from now on: close them, whatever happens.
    """
    backends = [
        MeasuredBackend(OnnxBackend(model, name=str(model.tag)), clock) for model in loaded.models
    ]
    versions = [
        _served(plan, model, backend, clock)
        for model, backend in zip(loaded.models, backends, strict=True)
    ]
    metrics = GatewayMetrics()
    for served in versions:
        tag = served.response_tag
        metrics.add_version(tag.model_name, tag.model_version, served.objective)
    catalogue = Catalogue(versions, aliases=loaded.aliases)
    readiness = Readiness()
    ids = RequestIds(secrets.token_hex(4))
    lookups = Lookups(catalogue=catalogue, readiness=readiness, ids=ids, draw=draw)
    predictor = Predictor(
        catalogue=catalogue,
        readiness=readiness,
        metrics=metrics,
        ids=ids,
        clock=clock,
        draw=draw,
    )
    return Parts(
        clock=clock,
        catalogue=catalogue,
        backends=backends,
        readiness=readiness,
        metrics=metrics,
        lookups=lookups,
        endpoint=Endpoint(predictor=predictor, lookups=lookups, ids=ids),
        sweeper=Sweeper(clock),
    )


def _served(plan: Plan, model: Model, backend: MeasuredBackend, clock: Clock) -> ServedVersion:
    name = model.tag.name
    return ServedVersion(
        model=model,
        driver=BatchDriver(
            backend,
            signature=model.signature,
            limits=BatchLimits(queue_limit_rows=plan.serve.queue_limit_rows),
            clock=clock,
            name=str(model.tag),
        ),
        objective=plan.settings.objective(name),
        objective_origin=plan.settings.origin(f"models.{name}.slo_ms"),
    )


def build_public_server(plan: Plan, parts: Parts) -> HttpServer:
    """Prepare the public listener; whichever server is not asked for is not imported.

    Raises:
        SettingError: The port was taken since the start.
    """
    host, port = plan.host, plan.serve.port
    if plan.serve.server == "granian":
        from tidegate_realtime.api.rsgi import RsgiApp  # only if asked for
        from tidegate_realtime.api.servers.granian import GranianServer  # likewise

        check_free(host, port)
        app = RsgiApp(parts.endpoint, parts.sweeper, parts.clock)
        return GranianServer(app, host=host, port=port)
    asgi = AsgiApp(parts.endpoint, parts.sweeper, parts.clock)
    return _uvicorn(plan, asgi, claim(host, port))


async def build_admin(plan: Plan, parts: Parts, claimed: socket.socket) -> HttpServer:
    """Prepare the admin listener; FastAPI is imported in a thread, while callers are served."""

    def build() -> HttpServer:
        from tidegate_realtime.api.admin.app import AdminParts, build_admin_app  # slow
        from tidegate_realtime.api.admin.exposition import GatewayCollector  # slow

        collector = GatewayCollector(
            catalogue=parts.catalogue,
            metrics=parts.metrics,
            backends=parts.backends,
            clock=parts.clock,
        )
        admin = AdminParts(
            catalogue=parts.catalogue,
            lookups=parts.lookups,
            collector=collector,
            public_url=plan.public_url,
        )
        return _uvicorn(plan, build_admin_app(admin), claimed)

    return await asyncio.to_thread(build)


def _uvicorn(plan: Plan, app: object, claimed: socket.socket) -> HttpServer:
    from tidegate_realtime.api.servers.uvicorn import UvicornServer  # only if asked for

    limit_s = ns_to_seconds(ms_to_ns(plan.serve.drain_limit_ms))
    return UvicornServer(app, claimed, drain_limit_s=limit_s)
