"""A model of texts on a thread of its own, on virtual time: the longer a text, the slower it is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import numpy as np

from tests.fakes.backends import BegunBatch, FakeBackend
from tests.fakes.driving import in_ms
from tests.fakes.loop_clock import LoopClock
from tidegate.inference.arrays import Array
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate.units import ms_to_ns
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.buckets import BucketedDriver
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Answered, Outcome
from tidegate_realtime.runtime.promise import Promise
from tidegate_realtime.runtime.ticket import Ticket

LENGTHS = (16, 64, 256)
ONE_ROW_MS = {16: 5.0, 64: 13.0, 256: 67.0}
"""Of MiniLM on one core, nearly; more rows take less than as many times as long where rows are
short, and more where they are long."""
TEXTS = Signature(
    inputs=tuple(
        TensorSpec(name=name, datatype="INT64", shape=(-1, -1)) for name in ("ids", "mask")
    ),
    outputs=(TensorSpec(name="output", datatype="INT64", shape=(-1, -1)),),
)


def call_ms(rows: int, length: int) -> float:
    power = {16: 0.8, 64: 1.0, 256: 1.1}[min(each for each in LENGTHS if each >= length)]
    return ONE_ROW_MS[min(each for each in LENGTHS if each >= length)] * float(rows**power)


class TextBackend(FakeBackend):
    """Takes as long as texts of that length do."""

    warmed: Sequence[int] = ()
    """Lengths of the calls before the first caller."""

    def takes_s(self, batch: BegunBatch) -> float:
        return call_ms(batch.rows, batch.inputs["ids"].shape[1]) / 1_000

    @property
    def lengths(self) -> list[int]:
        return [batch.inputs["ids"].shape[1] for batch in self.begun]


class Noisy(TextBackend):
    """By 5 % more or less."""

    def __init__(self) -> None:
        super().__init__()
        self._dice = Random(7)

    def takes_s(self, batch: BegunBatch) -> float:
        return super().takes_s(batch) * max(0.7, self._dice.gauss(1, 0.05))


def texts(length: int, rows: int = 1, number: int = 0) -> dict[str, Array]:
    ids = np.full((rows, length), number, dtype=np.int64)
    return {"ids": ids, "mask": np.ones_like(ids)}


@asynccontextmanager
async def serving(
    backend: FakeBackend, *, slo_ms: float = 150.0, best_effort: bool = False
) -> AsyncIterator[BucketedDriver]:
    """Warm a driver up, close it in the end, and let nobody be lost."""

    def build(name: str) -> BatchDriver:
        return BatchDriver(
            backend,
            signature=TEXTS,
            limits=BatchLimits(),
            clock=LoopClock(),
            name=name,
            promise=Promise(
                slo_ns=ms_to_ns(slo_ms),
                is_padded=False,
                best_effort=best_effort,
                warm_up_budget_ns=ms_to_ns(300),
            ),
        )

    driver = BucketedDriver(
        build,
        signature=TEXTS,
        lengths=LENGTHS,
        executors=backend.executors,
        clock=LoopClock(),
        name="minilm@1",
    )
    await driver.warm_up()
    if isinstance(backend, TextBackend):
        backend.warmed = backend.lengths
    backend.begun.clear()
    try:
        yield driver
    finally:
        await driver.aclose()
    assert driver.statistics().unaccounted == 0
    assert driver.statistics().in_progress == 0
    assert backend.closed


def send(
    driver: BucketedDriver,
    length: int,
    *,
    rows: int = 1,
    within_ms: float = 150.0,
    sheddable: bool | None = None,
) -> Ticket:
    return driver.submit(
        texts(length, rows),
        rows=rows,
        deadline_at_ns=in_ms(within_ms),
        sheddable=sheddable,
    )


def answered(outcomes: Sequence[Outcome]) -> float:
    return sum(isinstance(outcome, Answered) for outcome in outcomes) / len(outcomes)
