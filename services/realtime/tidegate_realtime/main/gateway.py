"""The life of one gateway: load, warm up, listen, drain, close."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from random import Random
from typing import Final, NoReturn

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.failures import catching
from tidegate.clock.system import SystemClock
from tidegate.observability import get_logger
from tidegate.units import ms_to_ns
from tidegate_realtime.api.served import State
from tidegate_realtime.api.servers.port import HttpServer
from tidegate_realtime.api.servers.sockets import claim
from tidegate_realtime.main.announcing import announcement
from tidegate_realtime.main.parts import Host, Parts, build_admin, build_parts, build_public_servers
from tidegate_realtime.main.starting import Plan
from tidegate_realtime.main.tallying import report_requests
from tidegate_realtime.runtime.following import follow_aliases

log: Final = get_logger(__name__)

ADMIN_HOST: Final = "127.0.0.1"
CLOSE_LIMIT_S: Final = 5.0
"""For the model call that is running when the drain is over."""
_LAST_REPLIES_S: Final = 1.0
_GC_THRESHOLDS: Final = (50_000, 50, 1_000)
"""Full collections rarely: with freezing they take the p99 from 17 to 6 ms (measured)."""


async def run_gateway(plan: Plan) -> ExitCode:
    """Serve until SIGTERM or Ctrl-C, then end what was begun; a second signal ends at once.

    Raises:
        TidegateError: What was asked for cannot be served; nothing is left running.
    """
    stopping = _stop_on_signals()
    with claim(ADMIN_HOST, plan.serve.admin_port) as admin_socket:
        async with asyncio.TaskGroup() as tasks:
            parts = build_parts(plan, tasks, clock=SystemClock(), draw=Random().random)
            await _serve(plan, parts, admin_socket, stopping, tasks)
    return ExitCode.OK


def _stop_on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # whoever asks twice means it

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return stopping


async def _serve(
    plan: Plan,
    parts: Parts,
    admin_socket: socket.socket,
    stopping: asyncio.Event,
    tasks: asyncio.TaskGroup,
) -> None:
    """Listen: operators first, who see the models come; callers last, when all are warm."""
    failure: Exception | None = None
    admin = await build_admin(plan, parts, admin_socket)
    operating = tasks.create_task(_until_stopped(admin, stopping), name="admin listener")
    try:
        await _start(parts, stopping, tasks)
        if not stopping.is_set():
            await _answer(plan, parts, stopping, tasks)
    except Exception as error:
        failure = error
        raise
    finally:
        stopping.set()
        admin.stop()
        await _close(parts, failure)  # who waits for a load there is told that there will be none
        await asyncio.wait({operating})  # cancelled, it would leave its socket to the loop


async def _start(parts: Parts, stopping: asyncio.Event, tasks: asyncio.TaskGroup) -> None:
    """Bring the models, unless a signal comes first: nobody needs them then."""

    async def cut_short() -> None:
        await stopping.wait()
        patience.reschedule(0)

    try:
        async with asyncio.timeout(None) as patience:
            cutting = tasks.create_task(cut_short(), name="stop before the start")
            try:
                await parts.host.start()
            finally:
                cutting.cancel()
    except TimeoutError:
        if not stopping.is_set():
            raise


async def _answer(
    plan: Plan, parts: Parts, stopping: asyncio.Event, tasks: asyncio.TaskGroup
) -> None:
    watching = _watch(plan, parts, tasks)
    public = await build_public_servers(plan, parts)
    _spare_the_collector()
    parts.edge.catalogue.readiness.state = State.READY
    listening = [
        tasks.create_task(_until_stopped(server, stopping), name=type(server).__name__)
        for server in public
    ]
    for server in public:
        await server.started()
    _announce(plan, parts)
    await stopping.wait()
    await _drain(plan, parts, public, listening)
    for (model, version), times in parts.edge.metrics.stage_times.items():
        log.info("stages_timed", model=f"{model}@{version}", **times.in_one_line())
    report_requests(parts.edge.metrics)
    for task in watching:
        task.cancel()


def _watch(plan: Plan, parts: Parts, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
    """Start what goes on for as long as the process serves."""
    watching = [tasks.create_task(parts.edge.sweeper.run(), name="sweeper")]
    if plan.keys is not None:
        watching.append(tasks.create_task(plan.keys.follow(), name="keys"))
    if plan.serve.follow_aliases_ms:
        every_ns = ms_to_ns(plan.serve.follow_aliases_ms)
        following = follow_aliases(parts.host, every_ns=every_ns, draw=Random().random)
        watching.append(tasks.create_task(following, name="aliases"))
    return watching


async def _until_stopped(server: HttpServer, stopping: asyncio.Event) -> None:
    """Serve, and end the process loudly if the server ends by itself."""
    await server.serve()
    if not stopping.is_set():
        raise RuntimeError(f"{type(server).__name__} ended although nobody stopped it")


def _announce(plan: Plan, parts: Parts) -> None:
    for served in parts.edge.catalogue.versions:
        tag, objective = served.model.tag, served.objective
        log.info("model_served", model=str(tag), digest=tag.digest, slo_ms=objective.slo_ms)
    click.echo(
        announcement(
            parts.edge.catalogue.versions,
            store=plan.settings.store,
            public_url=plan.public_url,
            grpc_target=plan.grpc_target,
            admin_url=f"http://{ADMIN_HOST}:{plan.serve.admin_port}",
        )
    )


def _spare_the_collector() -> None:
    """Keep what lives for ever out of every later collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def _drain(
    plan: Plan,
    parts: Parts,
    public: Sequence[HttpServer],
    listening: Sequence[asyncio.Task[None]],
) -> None:
    """Take nothing new, and wait for what was taken, but not for ever.

    granian forgets handlers whose client has left, hence the count of our own.
    """
    parts.edge.catalogue.readiness.state = State.DRAINING
    for server in public:
        server.stop()
    log.info("draining", requests=parts.edge.metrics.in_flight.total())
    try:
        async with asyncio.timeout(plan.serve.drain_limit_ms / 1000):
            await parts.edge.sweeper.idle()
            await asyncio.wait(listening)
    except TimeoutError:
        log.warning("drain_limit_reached", requests=parts.edge.metrics.in_flight.total())
        parts.edge.sweeper.cut_uploads()
        await asyncio.wait(listening, timeout=_LAST_REPLIES_S)
        for task in listening:
            task.cancel()


async def _close(parts: Parts, failure: Exception | None) -> None:
    try:
        async with asyncio.timeout(CLOSE_LIMIT_S):
            await parts.host.aclose()
            await parts.edge.slow_reader.aclose()
    except TimeoutError:
        # No thread can be stopped, and the interpreter would wait for it for ever.
        given_up = _give_up(parts.host)
        os._exit(given_up if failure is None else tell(failure))


def tell(failure: Exception) -> int:
    """Say why the process ends, where nobody above would come to it; return its exit code."""

    def fail() -> NoReturn:
        raise failure

    return catching(fail, sys.argv[1:])


def _give_up(host: Host) -> ExitCode:
    if host.hosted:
        log.error("model_call_stuck", models=host.hosted, limit_s=CLOSE_LIMIT_S)
        return ExitCode.FAILED
    if host.loading:
        log.warning("load_abandoned", models=host.loading, limit_s=CLOSE_LIMIT_S)
    elif host.asking:
        log.warning("questions_abandoned", questions=host.asking, limit_s=CLOSE_LIMIT_S)
    else:
        log.warning("reading_abandoned", limit_s=CLOSE_LIMIT_S)
    return ExitCode.OK
