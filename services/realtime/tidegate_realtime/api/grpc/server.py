"""The gRPC listener, on the running loop."""

import asyncio
from typing import Final

import grpc

from tidegate.errors import SettingError
from tidegate_realtime.api.guards import HEADER_LIMIT_S
from tidegate_realtime.api.servers.tls import Tls

REQUEST_LIMIT_BYTES: Final = 64 << 20
REPLY_LIMIT_BYTES: Final = 256 << 20
STREAMS_LIMIT: Final = 1_000
"""Calls at once on one connection; further ones wait at the client."""
CALLS_LIMIT: Final = 4_096
"""Calls at once on all connections; the library refuses further ones."""
IDLE_LIMIT_S: Final = 300
"""Of a connection without a call; a client connects again by itself."""
_PING_AFTER_S: Final = 60
_PING_LIMIT_S: Final = 20
"""A connection whose other end has gone without a word is closed after both."""
OPTIONS: Final = (
    ("grpc.max_receive_message_length", REQUEST_LIMIT_BYTES),
    ("grpc.max_send_message_length", REPLY_LIMIT_BYTES),
    ("grpc.max_concurrent_streams", STREAMS_LIMIT),
    ("grpc.server_handshake_timeout_ms", int(HEADER_LIMIT_S * 1000)),
    ("grpc.max_connection_idle_ms", IDLE_LIMIT_S * 1000),
    ("grpc.keepalive_time_ms", _PING_AFTER_S * 1000),
    ("grpc.keepalive_timeout_ms", _PING_LIMIT_S * 1000),
    ("grpc.so_reuseport", 0),  # else a second gateway would take part of the calls, without a word
)


class GrpcServer:
    """One listener in this process and loop; see ``HttpServer``, whose shape it has."""

    def __init__(
        self,
        service: grpc.GenericRpcHandler,
        *,
        host: str,
        port: int,
        drain_limit_s: float,
        tls: Tls | None = None,
    ) -> None:
        """Take the port.

        Args:
            service: What answers.
            host: Numeric.
            port: 0 for any that is free.
            drain_limit_s: How long ``stop`` leaves calls that have begun.
            tls: Its files; without them the listener speaks plain HTTP/2.

        Raises:
            SettingError: The port is taken.
        """
        self._drain_limit_s = drain_limit_s
        self._server = grpc.aio.server(
            handlers=[service], options=OPTIONS, maximum_concurrent_rpcs=CALLS_LIMIT
        )
        self._stopping = asyncio.Event()
        self._started = asyncio.Event()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.port = (
                self._server.add_insecure_port(address)
                if tls is None
                else self._server.add_secure_port(address, _credentials(tls))
            )
        except RuntimeError as error:
            raise SettingError(
                f"cannot listen on {address} for gRPC: another process may have this port. Stop "
                "that one, or choose another with --grpc-port (0: no gRPC)."
            ) from error

    async def serve(self) -> None:
        """Answer until ``stop``, then return when what was begun has been answered, or cut.

        Cancelling drops what has not been answered.
        """
        try:
            await self._server.start()
            self._started.set()
            await self._stopping.wait()
            await self._server.stop(self._drain_limit_s)
        finally:
            await self._server.stop(None)  # of one that has stopped nothing is left to be done

    async def started(self) -> None:
        """Wait until calls are accepted."""
        await self._started.wait()

    def stop(self) -> None:
        """Accept nothing more; call it on the loop."""
        self._stopping.set()


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    authority = None if tls.client_ca is None else tls.client_ca.read_bytes()
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.cert.read_bytes())],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )
