"""The HTTP server: uvicorn on a socket that is bound already, until it is told to stop."""

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Final

from starlette.types import ASGIApp
from uvicorn import Config, Server

_BACKLOG: Final = 128
_DRAIN_S: Final = 5
"""What a client may still wait for once the service is told to stop; jobs go on anyway."""


class _Server(Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to us: uvicorn would raise them again once it has stopped."""
        yield


async def serve(
    app: ASGIApp, claimed: socket.socket, beside: list[Callable[[], Coroutine[None, None, None]]]
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        app: What answers.
        claimed: Bound, and not listening yet.
        beside: What goes on for ever meanwhile; if one fails, everything ends.
    """
    claimed.listen(_BACKLOG)
    config = Config(
        app,
        ws="none",
        lifespan="off",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_DRAIN_S,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with asyncio.TaskGroup() as tasks:
        going = [tasks.create_task(each(), name=f"beside {n}") for n, each in enumerate(beside)]
        await server.serve(sockets=[claimed])
        for task in going:
            task.cancel()
