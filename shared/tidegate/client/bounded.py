"""A network whose every wait ends at one instant, however many waits a request is made of.

A timeout of a socket starts anew with each read, so that a peer who sends a byte now and then can
stretch a request without end. Here the number that the connection pool passes on as ``timeout`` is
no duration but the instant of the deadline, in seconds of the clock; it is turned into what is left
where the waiting is done. On an event loop ``asyncio.timeout`` does all this.
"""

import socket
import ssl
from collections.abc import Iterable
from typing import Any, Final

from httpcore2 import (
    SOCKET_OPTION,
    ConnectError,
    ConnectTimeout,
    NetworkBackend,
    NetworkStream,
    ReadTimeout,
    SyncBackend,
    WriteTimeout,
)

from tidegate.clock import Clock
from tidegate.units import ns_to_seconds

_PIECE_BYTES: Final = 64 * 1024
"""Written at once: a socket takes about as much each time it has room again."""


class BoundedBackend(NetworkBackend):
    """Opens connections; a name with several addresses is tried in their order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sockets = SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> NetworkStream:
        """Connect before the instant ``timeout``; looking the name up is the system's business.

        Raises:
            ConnectTimeout: It is over.
            ConnectError: No address takes the connection.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectError(error) from error
        failure = ConnectError(OSError(f"{host} has no address"))
        for *_, address in found:
            left_s = left_seconds(self._clock, timeout, ConnectTimeout)
            try:
                stream = self._sockets.connect_tcp(
                    str(address[0]), port, left_s, local_address, socket_options
                )
            except ConnectError as error:
                failure = error
            else:
                return _BoundedStream(stream, self._clock)
        raise failure


class _BoundedStream(NetworkStream):
    def __init__(self, stream: NetworkStream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, left_seconds(self._clock, timeout, ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        whole = memoryview(buffer)
        for start in range(0, len(whole), _PIECE_BYTES):
            left_s = left_seconds(self._clock, timeout, WriteTimeout)
            self._stream.write(bytes(whole[start : start + _PIECE_BYTES]), left_s)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> NetworkStream:
        left_s = left_seconds(self._clock, timeout, ConnectTimeout)
        secured = self._stream.start_tls(ssl_context, server_hostname, left_s)
        return _BoundedStream(secured, self._clock)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - whatever the library keeps there
        return self._stream.get_extra_info(info)


def left_seconds(clock: Clock, at_s: float | None, late: type[Exception]) -> float | None:
    """Turn an instant into what is left until it; ``None`` has no end.

    Raises:
        Exception: ``late``, once nothing is left.
    """
    if at_s is None:
        return None
    left_s = at_s - ns_to_seconds(clock.now_ns())
    if left_s <= 0:
        raise late("the deadline has passed")
    return left_s
