"""One request and its reply, and the port that carries them. Retries are not its business."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What goes over the wire; host and lengths are added on the way."""

    method: str
    path: str
    """Under the client's address, with a leading slash."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class Transport(Protocol):
    """Carries one request at a time for each thread that calls it."""

    def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        """Wait for the whole reply, of any status.

        Args:
            request: What to send.
            within_ns: After this the wait is over, whatever has come by then; above 0.

        Raises:
            DeadlineExpiredError: That time is over.
            ConnectionFailedError: There is no connection, or it was lost.
            ServerFaultError: What came is no HTTP.
        """
        ...

    def close(self) -> None:
        """Close what is kept open."""
        ...


class AsyncTransport(Protocol):
    """The same on an event loop."""

    async def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        """Wait for the whole reply; raises as ``Transport.send`` does.

        Cancelling it closes the connection, by which the gateway learns that nobody waits.
        """
        ...

    async def close(self) -> None:
        """Close what is kept open."""
        ...
