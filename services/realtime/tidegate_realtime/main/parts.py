"""Puts the gateway together; the only place that knows every adapter."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from tidegate.artifacts.local import LocalVersion
from tidegate.clock import Clock
from tidegate.units import ms_to_ns, ns_to_seconds
from tidegate_realtime.api.asgi import AsgiApp
from tidegate_realtime.api.edge import Edge, build_edge
from tidegate_realtime.api.observing import Observer
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.api.servers.port import HttpServer
from tidegate_realtime.api.servers.sockets import check_free, claim
from tidegate_realtime.api.servers.tls import Tls
from tidegate_realtime.api.shelf import CatalogueShelf
from tidegate_realtime.core.lifecycle import Lifecycle
from tidegate_realtime.main.cores import count_cores
from tidegate_realtime.main.guarding import build_policy, connection_limits
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.main.versions import StoredVersions
from tidegate_realtime.runtime.hosting import ModelHost

Host: TypeAlias = ModelHost[LocalVersion, ServedVersion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one process consists of; nothing listens yet, and no model is loaded."""

    edge: Edge
    host: Host
    """To be closed, whatever happens."""
    source: StoredVersions


def build_parts(
    plan: Plan, tasks: asyncio.TaskGroup, *, clock: Clock, draw: Callable[[], float]
) -> Parts:
    """Wire everything behind the listeners; call it on the running loop.

    Args:
        plan: What is asked for.
        tasks: Where model versions live; close the host before it ends.
        clock: Of the process.
        draw: Uniform in 0…1.
    """
    edge = build_edge(
        clock=clock,
        draw=draw,
        id_prefix=secrets.token_hex(4),
        policy=build_policy(plan.serve, plan.keys, cores=count_cores()),
    )
    source = StoredVersions(plan, clock, is_serving=lambda: edge.catalogue.readiness.is_ready)
    host = ModelHost(
        Lifecycle(plan.models, memory_limit_bytes=plan.serve.memory_limit_bytes),
        source=source,
        shelf=CatalogueShelf(edge.catalogue, edge.metrics),
        clock=clock,
        tasks=tasks,
        load_limit_ns=ms_to_ns(plan.serve.load_limit_ms),
    )
    return Parts(edge=edge, host=host, source=source)


async def build_public_servers(plan: Plan, parts: Parts) -> list[HttpServer]:
    """Prepare the public listeners, HTTP first; what is not asked for is not imported.

    Raises:
        SettingError: A port was taken since the start.
    """
    if not plan.serve.grpc_port:
        return [_http(plan, parts)]
    # It takes a quarter of a second to import, for which operators need not wait.
    await asyncio.to_thread(import_module, "tidegate_realtime.api.grpc.service")
    return [_http(plan, parts), _grpc(plan, parts)]


def _http(plan: Plan, parts: Parts) -> HttpServer:
    host, port, edge = plan.host, plan.serve.port, parts.edge
    if plan.serve.server == "granian":
        from tidegate_realtime.api.rsgi import RsgiApp  # only if asked for
        from tidegate_realtime.api.servers.granian import GranianServer  # likewise

        check_free(host, port)
        app = RsgiApp(edge.endpoint, edge.sweeper, edge.clock)
        limits = connection_limits(plan.serve)
        return GranianServer(app, host=host, port=port, limits=limits, tls=plan.tls)
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
        from tidegate_realtime.api.admin.models import Models  # slow

        edge = parts.edge
        collector = GatewayCollector(
            catalogue=edge.catalogue,
            metrics=edge.metrics,
            clock=edge.clock,
            host=parts.host,
        )
        observer = Observer(
            catalogue=edge.catalogue,
            metrics=edge.metrics,
            clock=edge.clock,
        )
        admin = AdminParts(
            catalogue=edge.catalogue,
            lookups=edge.lookups,
            collector=collector,
            observer=observer,
            public_url=plan.public_url,
            models=Models(
                host=parts.host,
                catalogue=edge.catalogue,
                aliases=parts.source,
                clock=edge.clock,
            ),
            policy=edge.policy,
        )
        return _uvicorn(plan, build_admin_app(admin), claimed)

    return await asyncio.to_thread(build)


def _uvicorn(
    plan: Plan, app: object, claimed: socket.socket, *, tls: Tls | None = None
) -> HttpServer:
    from tidegate_realtime.api.servers.uvicorn import UvicornServer  # only if asked for

    return UvicornServer(
        app,
        claimed,
        drain_limit_s=_drain_limit_s(plan),
        limits=connection_limits(plan.serve),
        tls=tls,
    )


def _drain_limit_s(plan: Plan) -> float:
    return ns_to_seconds(ms_to_ns(plan.serve.drain_limit_ms))
