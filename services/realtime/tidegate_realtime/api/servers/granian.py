"""granian, embedded in the running loop: the default."""

import asyncio
from importlib.util import find_spec
from typing import Final

from granian.constants import HTTPModes, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server

from tidegate.errors import SettingError
from tidegate_realtime.api.guards import HEADER_LIMIT_S
from tidegate_realtime.api.rsgi import RsgiApp
from tidegate_realtime.api.servers.connections import BACKLOG, ConnectionLimits
from tidegate_realtime.api.servers.tls import Tls

_DEFAULT_LIMITS: Final = ConnectionLimits()
_BUFFER_BYTES: Final = 32 << 10
"""hyper's read buffer; a header block of about twice as much is refused with 431."""
_POLL_S: Final = 0.005
_START_LIMIT_S: Final = 10.0


def check_loop() -> None:
    """Refuse to run granian on the plain asyncio loop.

    Raises:
        SettingError: uvloop is not installed.
    """
    if find_spec("uvloop") is None:
        raise SettingError(
            "granian needs uvloop: on the plain asyncio loop it reaches half the throughput. "
            "pip install 'tidegate[realtime]', or choose --server uvicorn."
        )


class GranianServer:
    """One granian worker in this process and loop; its I/O runs in a Rust thread."""

    def __init__(
        self,
        app: RsgiApp,
        *,
        host: str,
        port: int,
        limits: ConnectionLimits = _DEFAULT_LIMITS,
        tls: Tls | None = None,
    ) -> None:
        """Prepare it; check that the address is free right before ``serve``.

        A connection beyond the limit waits in the backlog until another one ends: silent ones do
        after ``HEADER_LIMIT_S``. (granian's own default is 128, and a request behind 130 idle
        connections waited 2.8 s.)
        """
        self._address = (host, port)
        self._server = Server(
            app,
            address=host,
            port=port,
            http=HTTPModes.http1,  # the only mode that closes silent connections
            websockets=False,
            backlog=BACKLOG,
            backpressure=limits.all,
            http1_settings=HTTP1Settings(
                header_read_timeout=int(HEADER_LIMIT_S * 1000), max_buffer_size=_BUFFER_BYTES
            ),
            ssl_cert=tls and tls.cert,
            ssl_key=tls and tls.key,
            ssl_protocol_min=SSLProtocols.tls12,  # 1.3 alone would refuse clients still in use
            ssl_ca=tls and tls.client_ca,
            ssl_client_verify=tls is not None and tls.client_ca is not None,
            log_enabled=False,  # else it says at every start that embedding is experimental
        )

    async def serve(self) -> None:
        """Serve until ``stop``; see ``HttpServer``.

        It drains what it knows of: a handler whose client has left may still be running.
        """
        await self._server.serve()

    async def started(self) -> None:
        """Connect until it works: granian has no event for it, and listens in another thread."""
        host, port = self._address
        async with asyncio.timeout(_START_LIMIT_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection(_reachable(host), port)
                except OSError:
                    await asyncio.sleep(_POLL_S)
                else:
                    writer.close()
                    return

    def stop(self) -> None:
        """Stop accepting."""
        self._server.stop()  # type: ignore[no-untyped-call] # granian's, partly typed


def _reachable(host: str) -> str:
    """Return an address to connect to: "all of them" is none."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
