"""A gateway that says what it was told to say, after the time that it was told to take."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.client.errors import ClientError, DeadlineExpiredError
from tidegate.client.transport import HttpReply, HttpRequest
from tidegate.clock import ManualClock
from tidegate.units import ms_to_ns, ns_to_ms, ns_to_seconds

PREDICTED = {
    "predictions": [1.5],
    "model_name": "risk",
    "model_version": "7",
    "model_digest": "sha256:ab",
    "served_by": "model",
    "request_id": "r",
}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What becomes of one try."""

    status: int = 200
    content: object = field(default_factory=lambda: PREDICTED)
    headers: dict[str, str] = field(default_factory=dict)
    takes_ms: float = 0.0
    fails: Callable[[], ClientError] | None = None
    """In place of a reply."""


def refused(status: int, code: str, *, takes_ms: float = 0.0, **details: object) -> Turn:
    """Say no, as the protocol does."""
    content = {"error": "No.", "code": code, "request_id": "r", "details": details}
    return Turn(status=status, content=content, takes_ms=takes_ms)


class _Script:
    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns: Iterator[Turn] = iter(turns)
        self.requests: list[HttpRequest] = []

    def next(self, request: HttpRequest, within_ns: int) -> tuple[Turn, int]:
        """Return the next turn, and how long it takes."""
        assert within_ns > 0
        self.requests.append(request)
        turn = next(self._turns)
        return turn, min(ms_to_ns(turn.takes_ms), within_ns)

    def deadlines_ms(self) -> list[int]:
        return [int(dict(request.headers)["Tidegate-Deadline-Ms"]) for request in self.requests]


def _ended(turn: Turn, within_ns: int) -> HttpReply:
    if ms_to_ns(turn.takes_ms) >= within_ns:
        raise DeadlineExpiredError.of_waiting("http://fake", within_ms=ns_to_ms(within_ns))
    if turn.fails is not None:
        raise turn.fails()
    return HttpReply(
        status=turn.status, headers=turn.headers, body=json.dumps(turn.content).encode()
    )


class ScriptedTransport(_Script):
    """The port ``Transport``; its time is that of a clock turned by hand."""

    def __init__(self, turns: Sequence[Turn], clock: ManualClock) -> None:
        super().__init__(turns)
        self._clock = clock

    def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        turn, took_ns = self.next(request, within_ns)
        self._clock.advance(took_ns)
        return _ended(turn, within_ns)

    def close(self) -> None:
        pass


class AsyncScriptedTransport(_Script):
    """The port ``AsyncTransport``, on the loop's time, which a test makes virtual."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(turns)
        self.cancelled = 0

    async def send(self, request: HttpRequest, *, within_ns: int) -> HttpReply:
        turn, took_ns = self.next(request, within_ns)
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        loop.call_later(ns_to_seconds(took_ns), over.set_result, None)
        try:
            await over
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return _ended(turn, within_ns)

    async def close(self) -> None:
        pass
