"""What the lengths of a model of texts share, and what each of them has of its own."""

from dataclasses import dataclass

import pytest

from tests.fakes.loop_clock import LoopClock
from tests.fakes.texts import TEXTS, TextBackend
from tidegate.tensors.signature import Signature
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.main.driving import build_driver
from tidegate_realtime.runtime.promise import Promise

pytestmark = pytest.mark.looptime


@dataclass
class Described:
    """What is asked of a model before it runs."""

    lengths: tuple[int, ...]
    tag: str = "minilm@1"
    signature: Signature = TEXTS


@pytest.mark.parametrize(("lengths", "each_bytes"), [((256,), 600), ((16, 64, 256), 200)])
async def test_what_waits_of_all_lengths_together_holds_no_more_memory_than_of_one(
    lengths: tuple[int, ...], each_bytes: int
) -> None:
    driver = build_driver(
        TextBackend(),
        Described(lengths),  # type: ignore[arg-type] # has what is read of one
        BatchLimits(queue_limit_bytes=600),
        LoopClock(),
        Promise(slo_ns=ms_to_ns(150)),
    )
    assert [part.limits.queue_limit_bytes for part in driver.parts] == [each_bytes] * len(lengths)
    assert {part.limits.queue_limit_rows for part in driver.parts} == {4_096}
    await driver.aclose()
