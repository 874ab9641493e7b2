"""Many callers who leave at any moment: nobody else suffers, and every request ends once."""

import asyncio
import socket
from collections import Counter
from random import Random

import pytest

from tests.fixtures.gateways import Gateway

HOW = ("in the body", "at once", "a little later", "by reset", "half", "not at all")
AT_ONCE = 64
"""Callers at the same time."""
SLOW_TURNS = 3


class Caller:
    """One who asks for its own number, and may not wait for the answer."""

    def __init__(self, gateway: Gateway, number: int, random: Random) -> None:
        self._port = gateway.port
        self._random = random
        self._path = random.choice(("/v1/models/slow:predict", "/v1/models/echo:predict"))
        row = [SLOW_TURNS] if "slow" in self._path else [number, 0, 0]
        self._body = f'{{"instances":[{row}]}}'.encode()
        self._expected = f'"predictions":[{[float(x) for x in row]}]'.replace(" ", "").encode()
        self.how = random.choice(HOW)

    async def call(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            length = f"Content-Length: {len(self._body)}"
            head = f"POST {self._path} HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n".encode()
            whole = self.how != "in the body"
            writer.write(head + self._body[: None if whole else -3])
            await writer.drain()
            await self._leave(reader, writer)
        finally:
            writer.close()

    async def _leave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match self.how:
            case "a little later":
                try:
                    async with asyncio.timeout(self._random.uniform(0, 0.05)):
                        await reader.read(1)
                except TimeoutError:
                    pass
            case "by reset":
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            case "half":
                writer.write_eof()
                await reader.read()
            case "not at all":
                answer = await reader.readuntil(b"}")
                assert b" 200 " in answer[:20], answer
                assert self._expected in answer
            case _:
                pass


@pytest.mark.field_fault("S-26", "S-32", "S-33", "S-34")
@pytest.mark.parametrize("callers", [400, pytest.param(10_000, marks=pytest.mark.long)], ids=str)
async def test_whoever_leaves_costs_nobody_an_answer_and_is_counted_once(
    gateway: Gateway, callers: int
) -> None:
    random = Random(callers)
    before = counted(gateway)
    free = asyncio.Semaphore(AT_ONCE)
    all_of_them = [Caller(gateway, number, random) for number in range(callers)]

    async def one(caller: Caller) -> None:
        async with free:
            await caller.call()

    async with asyncio.TaskGroup() as tasks:
        for caller in all_of_them:
            tasks.create_task(one(caller))
    gateway.wait_for(0, "tidegate_in_flight_requests")
    change = {name: count - before[name] for name, count in counted(gateway).items()}
    how = Counter(caller.how for caller in all_of_them)
    # Who leaves before the server has read what he sent never arrives.
    assert callers / 2 < change["arrivals"] <= callers
    assert change["ended"] == change["arrivals"]
    assert change["failed"] == 0
    assert how["not at all"] <= change["answered"] <= callers - how["in the body"]
    assert gateway.metric("tidegate_queue_rows") == 0
    assert "Traceback" not in gateway.log.read_text()


def counted(gateway: Gateway) -> dict[str, float]:
    outcomes = ("answered", "failed")
    return {
        "arrivals": gateway.metric("tidegate_arrivals_total"),
        "ended": gateway.metric("tidegate_requests_total"),
        **{name: gateway.metric("tidegate_requests_total", outcome=name) for name in outcomes},
    }
