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
from tidegate_realtime.api.edge import Edge, build_edge
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.api.servers.port import HttpServer
from tidegate_realtime.api.servers.sockets import check_free, claim
from tidegate_realtime.api.servers.tls import Tls
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.main.executing import Executing
from tidegate_realtime.main.guarding import build_policy
from tidegate_realtime.main.loading import LoadedModels
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.promise import Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one process consists of; nothing listens yet."""

    edge: Edge
    backends: Sequence[MeasuredBackend]
    """One per version of the catalogue, in its order."""


def build_parts(
    plan: Plan,
    loaded: LoadedModels,
    executing: Sequence[Executing],
    *,
    clock: Clock,
    draw: Callable[[], float],
) -> Parts:
    """Wire everything behind the listeners; call it on the running loop.

    The drivers own the backends from now on: close them, whatever happens.
    """
    backends = [MeasuredBackend(each.backend, clock) for each in executing]
    versions = [
        _served(plan, model, backend, each, clock)
        for model, backend, each in zip(loaded.models, backends, executing, strict=True)
    ]
    edge = build_edge(
        versions,
        aliases=loaded.aliases,
        clock=clock,
        draw=draw,
        id_prefix=secrets.token_hex(4),
        policy=build_policy(plan.serve, plan.keys),
    )
    return Parts(edge=edge, backends=backends)


def _served(
    plan: Plan, model: Model, backend: MeasuredBackend, executing: Executing, clock: Clock
) -> ServedVersion:
    name, tag = model.tag.name, str(model.tag)
    section = plan.settings.of_model(name)
    promise = Promise(
        slo_ns=section.objective.slo_ns,
        percentile=section.percentile,
        best_effort=section.best_effort,
        max_deadline_ns=ms_to_ns(plan.serve.max_deadline_ms),
        sizes=executing.sizes,
        is_padded=executing.is_padded,
        warm_up_budget_ns=ms_to_ns(plan.serve.warm_up_budget_ms),
    )
    return ServedVersion(
        model=model,
        driver=BatchDriver(
            backend,
            signature=model.signature,
            limits=BatchLimits(
                memory_rows=section.memory_rows, queue_limit_rows=plan.serve.queue_limit_rows
            ),
            clock=clock,
            name=tag,
            promise=promise,
        ),
        objective=section.objective,
        objective_origin=plan.settings.origin(f"models.{name}.slo_ms"),
        best_effort=section.best_effort,
        max_deadline_ns=promise.max_deadline_ns,
        backend=executing.name,
        calls=backend.calls,
    )


def build_public_servers(plan: Plan, parts: Parts) -> list[HttpServer]:
    """Prepare the public listeners, HTTP first; what is not asked for is not imported.

    Call it on the running loop.

    Raises:
        SettingError: A port was taken since the start.
    """
    public = [_http(plan, parts)]
    if plan.serve.grpc_port:
        public.append(_grpc(plan, parts))
    return public


def _http(plan: Plan, parts: Parts) -> HttpServer:
    host, port, edge = plan.host, plan.serve.port, parts.edge
    if plan.serve.server == "granian":
        from tidegate_realtime.api.rsgi import RsgiApp  # only if asked for
        from tidegate_realtime.api.servers.granian import GranianServer  # likewise

        check_free(host, port)
        app = RsgiApp(edge.endpoint, edge.sweeper, edge.clock)
        return GranianServer(app, host=host, port=port, tls=plan.tls)
    asgi = AsgiApp(edge.endpoint, edge.sweeper, edge.clock)
    return _uvicorn(plan, asgi, claim(host, port), tls=plan.tls)


def _grpc(plan: Plan, parts: Parts) -> HttpServer:
    from tidegate_realtime.api.grpc.server import GrpcServer  # only if asked for
    from tidegate_realtime.api.grpc.service import build_service  # likewise

    return GrpcServer(
        build_service(parts.edge),
        host=plan.host,
        port=plan.serve.grpc_port,
        drain_limit_s=_drain_limit_s(plan),
        tls=plan.tls,
    )


async def build_admin(plan: Plan, parts: Parts, claimed: socket.socket) -> HttpServer:
    """Prepare the admin listener; FastAPI is imported in a thread, for that takes a while."""

    def build() -> HttpServer:
        from tidegate_realtime.api.admin.app import AdminParts, build_admin_app  # slow
        from tidegate_realtime.api.admin.exposition import GatewayCollector  # slow

        edge = parts.edge
        collector = GatewayCollector(
            catalogue=edge.catalogue,
            metrics=edge.metrics,
            backends=parts.backends,
            clock=edge.clock,
        )
        observer = Observer(
            catalogue=edge.catalogue,
            metrics=edge.metrics,
            backends=parts.backends,
            clock=edge.clock,
        )
        admin = AdminParts(
            catalogue=edge.catalogue,
            lookups=edge.lookups,
            collector=collector,
            observer=observer,
            public_url=plan.public_url,
            policy=edge.policy,
        )
        return _uvicorn(plan, build_admin_app(admin), claimed)

    return await asyncio.to_thread(build)


def _uvicorn(
    plan: Plan, app: object, claimed: socket.socket, *, tls: Tls | None = None
) -> HttpServer:
    from tidegate_realtime.api.servers.uvicorn import UvicornServer  # only if asked for

    return UvicornServer(app, claimed, drain_limit_s=_drain_limit_s(plan), tls=tls)


def _drain_limit_s(plan: Plan) -> float:
    return ns_to_seconds(ms_to_ns(plan.serve.drain_limit_ms))
