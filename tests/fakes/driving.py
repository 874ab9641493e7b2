"""What every driver test needs: a driver on a fake backend, and rows that tell who they are."""

import asyncio
from collections.abc import Iterator

import numpy as np

from tests.fakes.backends import FakeBackend
from tests.fakes.loop_clock import LoopClock
from tidegate.inference.arrays import Array
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Outcome
from tidegate_realtime.runtime.ports import Backend
from tidegate_realtime.runtime.ticket import Ticket

NUMBERS = Signature(
    inputs=(TensorSpec(name="input", datatype="FP32", shape=(-1, 1)),),
    outputs=(TensorSpec(name="output", datatype="FP32", shape=(-1, 1)),),
)


def build_driver(
    backend: Backend | None = None,
    *,
    cap_rows: int = 32,
    queue_limit_rows: int = 4_096,
    signature: Signature = NUMBERS,
) -> BatchDriver:
    return BatchDriver(
        FakeBackend() if backend is None else backend,
        signature=signature,
        limits=BatchLimits(cap_rows=cap_rows, queue_limit_rows=queue_limit_rows),
        clock=LoopClock(),
        name="echo@1",
    )


def numbers(rows: int, first: float = 0.0) -> dict[str, Array]:
    """``rows`` rows of one number each: first, first + 1, …"""
    return {"input": np.arange(first, first + rows, dtype=np.float32).reshape(rows, 1)}


def in_ms(milliseconds: float) -> Nanoseconds:
    """An instant of the loop's clock, counted from now."""
    return Nanoseconds(LoopClock().now_ns() + ms_to_ns(milliseconds))


def send(
    driver: BatchDriver, rows: int = 1, *, first: float = 0.0, within_ms: float = 3_600_000
) -> Ticket:
    return driver.submit(numbers(rows, first), rows=rows, deadline_at_ns=in_ms(within_ms))


async def outcome_of(ticket: Ticket) -> Outcome:
    return await ticket


async def outcomes_of(*tickets: Ticket) -> list[Outcome]:
    return list(await asyncio.gather(*map(outcome_of, tickets)))


def answers(outcome: Outcome) -> list[float]:
    """The numbers in the output of an answered request."""
    assert isinstance(outcome, Answered), outcome
    return [float(number) for number in outcome.outputs["output"].ravel()]


def counting_up(start: float = 0.0) -> Iterator[float]:
    """Numbers for requests of one row that must be told apart."""
    while True:
        yield start
        start += 1
