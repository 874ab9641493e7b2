"""One call from its question to its one ending, over as many tries as its deadline allows.

The two loops are the same but for ``await``. Each try is told how much of the deadline is left, so
that a gateway never works on what nobody waits for any more.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Generic, TypeVar

from tidegate.client.errors import ClientError, DeadlineExpiredError
from tidegate.client.questions import DEADLINE_HEADER
from tidegate.client.retrying import RetryPolicy
from tidegate.client.transport import AsyncTransport, HttpReply, HttpRequest, Transport
from tidegate.clock import Clock
from tidegate.units import Nanoseconds, ms_to_ns, ns_to_ms, ns_to_seconds

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[_T]):
    """What to ask, how to read the reply, and how long there is."""

    question: HttpRequest
    read: Callable[[HttpReply], _T]
    within_ms: float
    """For all tries and the waits between them."""
    told: bool = False
    """Whether the gateway is told of the deadline; without it its own objective counts there."""
    request_id: str = ""
    """Stands in an error, also where no reply has repeated it."""

    def request(self, left_ns: int) -> HttpRequest:
        """Write the request of one try.

        Raises:
            DeadlineExpiredError: There is no time left.
        """
        if left_ns <= 0:
            raise DeadlineExpiredError.before_sending()
        if not self.told:
            return self.question
        deadline = (DEADLINE_HEADER, str(math.ceil(ns_to_ms(left_ns))))
        return replace(self.question, headers=(*self.question.headers, deadline))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """What decides about the next try, and the clock that both loops go by."""

    policy: RetryPolicy
    clock: Clock
    draw: Callable[[], float]
    """Uniform in 0…1."""

    def ends_at_ns(self, call: Call[_T]) -> int:
        """Return when a call that begins now is over."""
        return self.clock.now_ns() + ms_to_ns(call.within_ms)

    def left_ns(self, ends_at_ns: int) -> int:
        """Return what is left of it."""
        return ends_at_ns - self.clock.now_ns()

    def wait_ns(
        self, error: ClientError, call: Call[_T], *, tried: int, ends_at_ns: int
    ) -> Nanoseconds:
        """Return how long to wait before the next try.

        Raises:
            ClientError: This one: there is none.
        """
        wait_ns = self.policy.wait_ns(
            error, tried=tried, draw=self.draw(), left_ns=self.left_ns(ends_at_ns)
        )
        if wait_ns is None:
            error.tries = tried
            error.request_id = error.request_id or call.request_id
            raise error
        return wait_ns


class Caller:
    """Calls from any thread."""

    def __init__(
        self, transport: Transport, retries: Retries, *, sleep_ns: Callable[[int], None]
    ) -> None:
        self._transport = transport
        self._retries = retries
        self._sleep_ns = sleep_ns

    def call(self, call: Call[_T]) -> _T:
        """Return the answer, before the deadline.

        Raises:
            ClientError: There is none; how the last try ended.
        """
        ends_at_ns = self._retries.ends_at_ns(call)
        for tried in count(1):
            left_ns = self._retries.left_ns(ends_at_ns)
            try:
                return call.read(self._transport.send(call.request(left_ns), within_ns=left_ns))
            except ClientError as error:
                wait_ns = self._retries.wait_ns(error, call, tried=tried, ends_at_ns=ends_at_ns)
            self._sleep_ns(wait_ns)
        raise AssertionError("counting has no end")


class AsyncCaller:
    """Calls from the tasks of one event loop."""

    def __init__(self, transport: AsyncTransport, retries: Retries) -> None:
        self._transport = transport
        self._retries = retries

    async def call(self, call: Call[_T]) -> _T:
        """Return the answer, before the deadline; raises as ``Caller.call`` does.

        Cancelling it closes the connection of the try in progress, and makes no other.
        """
        ends_at_ns = self._retries.ends_at_ns(call)
        for tried in count(1):
            left_ns = self._retries.left_ns(ends_at_ns)
            try:
                request = call.request(left_ns)
                return call.read(await self._transport.send(request, within_ns=left_ns))
            except ClientError as error:
                wait_ns = self._retries.wait_ns(error, call, tried=tried, ends_at_ns=ends_at_ns)
            await asyncio.sleep(ns_to_seconds(wait_ns))
        raise AssertionError("counting has no end")
