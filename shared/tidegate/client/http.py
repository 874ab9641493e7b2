"""The transports over a pool of kept connections (httpcore2), and its exceptions as ours.

The pool, its locks, TLS and HTTP itself are the library's. No proxy of the environment is used, no
redirect followed, no cookie kept: a gateway has none of them.
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import h11
import httpcore2

from tidegate.client.bounded import BoundedBackend
from tidegate.client.errors import (
    ClientError,
    ConnectionFailedError,
    DeadlineExpiredError,
    ServerFaultError,
)
from tidegate.client.transport import HttpReply, HttpRequest
from tidegate.clock import Clock
from tidegate.units import ns_to_ms, ns_to_seconds

_KEPT_S: Final = 4.0
"""An unused connection; a gateway closes one after 5 s (docs/http.md), and the slower side loses a
request now and then."""
_LOST: Final = (httpcore2.NetworkError, httpcore2.RemoteProtocolError)


class PoolTransport:
    """Carries requests of any number of threads."""

    def __init__(
        self, url: str, *, connections: int, ssl_context: ssl.SSLContext | None, clock: Clock
    ) -> None:
        self._url = url
        self._clock = clock
        self._pool = httpcore2.ConnectionPool(
            ssl_context=ssl_context,
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEPT_S,
            network_backend=BoundedBackend(clock),
        )

    def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        """Wait for the whole reply; see the port."""
        ends_at_s = ns_to_seconds(self._clock.now_ns() + within_ns)
        timeouts = dict.fromkeys(("connect", "read", "write"), ends_at_s)
        timeouts["pool"] = ns_to_seconds(within_ns)
        attempt = _Attempt(self._url, within_ns)
        with (
            attempt.mapped(),
            self._pool.stream(
                request.method,
                self._url + request.path,
                headers=list(request.headers),
                content=request.body or None,
                extensions={"timeout": timeouts},
            ) as response,
        ):
            attempt.reply_began = True
            return _reply(response, response.read())

    def close(self) -> None:
        """Close every connection; requests in progress fail."""
        self._pool.close()


class AsyncPoolTransport:
    """The same for the tasks of one event loop."""

    def __init__(self, url: str, *, connections: int, ssl_context: ssl.SSLContext | None) -> None:
        self._url = url
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEPT_S,
        )

    async def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        """Wait for the whole reply; cancelling it closes the connection."""
        attempt = _Attempt(self._url, within_ns)
        with attempt.mapped():
            async with (
                asyncio.timeout(ns_to_seconds(within_ns)),
                self._pool.stream(
                    request.method,
                    self._url + request.path,
                    headers=list(request.headers),
                    content=request.body or None,
                ) as response,
            ):
                attempt.reply_began = True
                return _reply(response, await response.aread())

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        await self._pool.aclose()


class _Attempt:
    """One request on its way, and what its failure means."""

    def __init__(self, url: str, within_ns: int) -> None:
        self._url = url
        self._within_ns = within_ns
        self.reply_began = False

    @contextmanager
    def mapped(self) -> Iterator[None]:
        """Raise what is ours in place of the library's exceptions."""
        try:
            yield
        except (httpcore2.TimeoutException, TimeoutError):
            within_ms = ns_to_ms(self._within_ns)
            raise DeadlineExpiredError.of_waiting(self._url, within_ms=within_ms) from None
        except _LOST as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> ClientError:
        cause = _cause(error)
        if isinstance(cause, h11.RemoteProtocolError) and not self.reply_began:
            return ServerFaultError.of_nonsense(str(cause))
        # Of the system's errors only a refused or broken connection may be another one next time:
        # a certificate, a name or a route that is wrong stays wrong.
        stays = isinstance(cause, OSError) and not isinstance(cause, ConnectionError)
        worth_another_try = not (self.reply_began or stays)
        return ConnectionFailedError.of_cause(
            self._url, str(cause) or repr(cause), worth_another_try=worth_another_try
        )


def _cause(error: BaseException) -> BaseException:
    """Return what an exception of the library stands for: it carries that as its argument."""
    if isinstance(error, BaseExceptionGroup):  # one for each address of a name
        return _cause(error.exceptions[0])
    carried = error.args[0] if error.args else None
    inner = carried if isinstance(carried, BaseException) else error.__cause__
    return error if inner is None else _cause(inner)


def _reply(response: httpcore2.Response, body: bytes) -> HttpReply:
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
    }
    return HttpReply(status=response.status, headers=headers, body=body)
