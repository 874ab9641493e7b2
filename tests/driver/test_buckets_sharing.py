"""A model of texts beside another model, on cores that both need."""

import asyncio

import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.driving import NUMBERS, in_ms, numbers, outcome_of, outcomes_of
from tests.fakes.loop_clock import LoopClock
from tests.fakes.texts import LENGTHS, TextBackend, send, serving
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Outcome
from tidegate_realtime.runtime.promise import Promise
from tidegate_realtime.runtime.sharing import SharedExecutors

pytestmark = pytest.mark.looptime


async def test_a_model_of_texts_gets_no_larger_share_of_the_cores_than_another() -> None:
    cores = SharedExecutors(1)
    other = BatchDriver(
        FakeBackend(took_s=0.02),
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=LoopClock(),
        name="other@1",
        promise=Promise(slo_ns=ms_to_ns(150), is_padded=False, sizes=(1,)),
    )
    await other.warm_up()
    other.share(cores)
    backend = TextBackend()
    running: list[int] = []

    async def ask_other() -> Outcome:
        ticket = other.submit(numbers(1), rows=1, deadline_at_ns=in_ms(150))
        return await outcome_of(ticket)

    async with serving(backend) as texts:
        texts.share(cores)
        assert texts.shared is cores
        async with asyncio.TaskGroup() as callers:
            asked = []
            for number in range(2_000):  # ten times what one core can do
                callers.create_task(outcome_of(send(texts, LENGTHS[number % 3])))
                asked.append(callers.create_task(ask_other()))
                await asyncio.sleep(0.005)
                running.append(cores.turns.executors - cores.turns.idle)
        others = sum(isinstance(task.result(), Answered) for task in asked) * 0.02
        assert max(running) == 1
        assert 3.5 <= others <= 6.5  # of 10 s
        assert all(part.statistics().answered > 0 for part in texts.parts)
    assert [seat.contender for seat in cores.turns.seats] != []
    await other.aclose()
    assert cores.turns.seats == []
    assert other.statistics().unaccounted == 0


async def test_texts_wait_for_another_model_and_go_on_when_it_leaves_the_core() -> None:
    cores = SharedExecutors(1)
    other = BatchDriver(
        FakeBackend(took_s=0.05),
        signature=NUMBERS,
        limits=BatchLimits(),
        clock=LoopClock(),
        name="other@1",
    )
    other.share(cores)
    backend = TextBackend()
    async with serving(backend) as texts:
        texts.share(cores)
        first = other.submit(numbers(1), rows=1, deadline_at_ns=in_ms(1_000))
        tickets = [send(texts, length) for length in (16, 64)]
        assert backend.begun == []
        assert isinstance(await outcome_of(first), Answered)
        assert {type(each) for each in await outcomes_of(*tickets)} == {Answered}
    await other.aclose()
