"""The client of load tests, against a server that does exactly what it is told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tidegate.clock.system import SystemClock
from tidegate.units import ms_to_ns
from tidegate_loadtest.replay.pool import Pool
from tidegate_loadtest.replay.result import ReplayResult
from tidegate_loadtest.replay.sending import CONNECTIONS, Sender
from tidegate_loadtest.replay.traffic import LEFT, LOST, NEVER, OPEN, Log, Traffic

REQUEST = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 21\r\n\r\n" + b'{"code":"queue_full"}'
)
CLOSING = b"HTTP/1.1 504 Gateway Timeout\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"

Answer = Callable[[int], bytes | None]
"""The number of a request, from 0, to its reply; ``None``: the server hangs up."""


class Server:
    """Answers one request after the other, over any number of connections."""

    def __init__(self, answer: Answer) -> None:
        self.requests = 0
        self.gate = asyncio.Event()
        """While it is clear, nobody is answered."""
        self.gate.set()
        self.twenty = asyncio.Event()
        """So many requests have come."""
        self._answer = answer

    async def on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while await reader.readuntil(b"{}"):
                number, self.requests = self.requests, self.requests + 1
                if self.requests == 20:
                    self.twenty.set()
                await self.gate.wait()
                reply = self._answer(number)
                if reply is None:
                    break
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client closed
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[Server, int]]:
    server = Server(answer)
    listener = await asyncio.start_server(server.on_connection, "127.0.0.1", 0)
    async with listener:
        yield server, listener.sockets[0].getsockname()[1]


async def sent(traffic: Traffic, port: int, *, give_up_s: float = 10.0) -> Log:
    clock = SystemClock()
    return await Sender(traffic, Pool("127.0.0.1", port, clock), clock).run(give_up_s=give_up_s)


def every_ms(requests: int, **other: object) -> Traffic:
    return Traffic(
        at_ns=np.arange(requests, dtype=np.int64) * ms_to_ns(1),
        requests=[REQUEST],
        **other,  # type: ignore[arg-type] # the one field that is left
    )


async def test_a_server_that_stalls_is_charged_for_everybody_whom_it_kept_waiting() -> None:
    """A closed loop would send a few requests during the stall, and report a fine p50."""
    reached: list[int] = []

    def end_the_stall() -> None:
        reached.append(server.requests)
        server.gate.set()

    async with serving(lambda _: OK) as (server, port):
        server.gate.clear()
        asyncio.get_running_loop().call_later(0.3, end_the_stall)
        log = await sent(every_ms(300), port)
    assert reached[0] > 2 * CONNECTIONS  # nobody waited for a reply before he was sent
    took_ns = log.ended_ns - log.at_ns
    assert (log.status == 200).all()
    assert took_ns[0] >= ms_to_ns(290)
    # Whoever was due in the middle of the stall waited for its second half, whenever it was sent.
    assert took_ns[150] >= ms_to_ns(145)
    assert np.median(took_ns) >= ms_to_ns(100)


async def test_every_request_ends_once_by_what_became_of_it() -> None:
    replies = [OK, REFUSED, CLOSING, None]
    async with serving(lambda number: replies[number % 4]) as (_, port):
        log = await sent(every_ms(40), port)
    result = ReplayResult.of(log, objective_ns=ms_to_ns(60_000))
    assert (result.sent, result.in_objective, result.late) == (40, 10, 0)
    assert result.rejected == {"503 queue_full": 10}
    assert (result.expired, result.lost, result.left, result.open) == (10, 10, 0, 0)
    assert result.missed_ratio == pytest.approx(20 / 30)
    assert (log.ended_ns >= log.sent_ns).all()


async def test_a_caller_who_leaves_closes_his_connection_and_nobody_elses() -> None:
    leave_after_ns = np.where(np.arange(20) % 2, ms_to_ns(5), NEVER)
    async with serving(lambda _: OK) as (server, port):
        server.gate.clear()
        asyncio.get_running_loop().call_later(0.2, server.gate.set)
        log = await sent(every_ms(20, leave_after_ns=leave_after_ns), port)
    assert log.status.tolist() == [200, LEFT] * 10
    assert (log.ended_ns - log.sent_ns)[1::2].max() < ms_to_ns(150)


async def test_what_is_never_answered_is_given_up_and_counted_as_missed() -> None:
    async with serving(lambda _: OK) as (server, port):
        server.gate.clear()
        log = await sent(every_ms(5), port, give_up_s=0.05)
        server.gate.set()
    assert log.status.tolist() == [OPEN] * 5
    assert ReplayResult.of(log, objective_ns=1).missed_ratio == 1


async def test_more_than_the_connections_of_a_client_are_lost_and_do_not_end_the_run() -> None:
    async with serving(lambda _: OK) as (server, port):
        clock = SystemClock()
        at_once = Traffic(at_ns=np.zeros(25, np.int64), requests=[REQUEST])
        server.gate.clear()
        sender = Sender(at_once, Pool("127.0.0.1", port, clock), clock, most_connections=20)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(sender.run())
            await server.twenty.wait()
            server.gate.set()
    assert Counter(running.result().status.tolist()) == {200: 20, LOST: 5}


async def test_a_server_that_goes_away_loses_requests_and_not_the_run() -> None:
    async with serving(lambda _: None) as (_, port):
        log = await sent(every_ms(30), port)
    assert log.status.tolist() == [LOST] * 30


async def test_nobody_there_is_said_at_once() -> None:
    async with serving(lambda _: OK) as (_, port):
        pass
    with pytest.raises(OSError, match="Connect call failed"):
        await sent(every_ms(1), port)
