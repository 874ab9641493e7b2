"""The client on an event loop: the same decisions as in threads, and cancelling at any moment."""

import asyncio

import pytest

from tests.fakes.loop_clock import LoopClock
from tests.fakes.transports import AsyncScriptedTransport, Turn, refused
from tidegate.client.answers import Prediction
from tidegate.client.calling import AsyncCaller, Retries
from tidegate.client.calls import Calls, Rows
from tidegate.client.errors import DeadlineExpiredError, RejectedError
from tidegate.client.questions import Wishes
from tidegate.client.retrying import RetryPolicy

pytestmark = pytest.mark.looptime

BUSY = refused(503, "queue_full", takes_ms=100, retry_after_ms=200)


async def call(transport: AsyncScriptedTransport, *, deadline_ms: float = 1_000) -> Prediction:
    retries = Retries(policy=RetryPolicy(tries=3), clock=LoopClock(), draw=lambda: 0.0)
    wishes = Wishes(deadline_ms=deadline_ms, request_id="r", headers={})
    asked = Calls.of(None, 30_000).predict("risk", Rows(instances=[1]), wishes)
    return await AsyncCaller(transport, retries).call(asked)


def now_ms() -> float:
    return round(asyncio.get_running_loop().time() * 1_000, 6)


async def test_a_refused_call_waits_as_long_as_it_was_told_and_succeeds() -> None:
    transport = AsyncScriptedTransport([BUSY, BUSY, Turn(takes_ms=50)])
    answer = await call(transport)
    assert answer.predictions == [1.5]
    assert now_ms() == 100 + 200 + 100 + 200 + 50
    assert transport.deadlines_ms() == [1_000, 700, 400]


async def test_the_last_refusal_ends_the_call() -> None:
    with pytest.raises(RejectedError) as raised:
        await call(AsyncScriptedTransport([BUSY] * 3))
    assert (raised.value.tries, raised.value.reason, raised.value.retry_after_ms) == (
        *(3, "queue_full"),
        200.0,
    )
    assert now_ms() == 700


async def test_the_deadline_ends_a_try_in_progress() -> None:
    with pytest.raises(DeadlineExpiredError):
        await call(AsyncScriptedTransport([BUSY, Turn(takes_ms=900)]), deadline_ms=500)
    assert now_ms() == 500


@pytest.mark.parametrize(("after_s", "sent", "cancelled"), [(0.05, 1, 1), (0.15, 1, 0)])
async def test_cancelling_ends_the_try_or_the_wait_and_nothing_is_sent_any_more(
    after_s: float, sent: int, cancelled: int
) -> None:
    transport = AsyncScriptedTransport([BUSY, Turn()])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(after_s):
            await call(transport)
    assert now_ms() == after_s * 1_000
    assert len(transport.requests) == sent
    assert transport.cancelled == cancelled
