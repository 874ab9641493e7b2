"""Two and three models on one executor, under loads that it cannot carry, on a virtual clock."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random

import pytest

from tidegate.units import NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import Answer, Batch, Command, StartBatch, WakeAt
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.turns import Seat, Turns

SECONDS = 5
NOISE = 0.07


@dataclass
class Model:
    """A batch takes ``alpha_ms`` for each row and ``beta_ms`` once, with 7 % noise."""

    alpha_ms: float
    beta_ms: float
    slo_ms: float
    rate_rps: float
    believed: float = 1.0
    """How many times longer its calls were before, as on a machine that stood still."""
    batcher: MicroBatcher = field(init=False)
    wake_at_ns: int | None = None
    in_time: int = 0
    late: int = 0

    def __post_init__(self) -> None:
        model = LatencyModel(percentile=0.99, sizes=None)
        for rows in range(1, 33):
            for step in range(-5, 6):
                took_ns = self.took_ns(rows, self.believed * (1 + NOISE * step / 3))
                model.observe(rows, took_ns, Nanoseconds(0))
        self.batcher = MicroBatcher(
            executors=1,
            limits=BatchLimits(),
            model=model,
            objective_ns=ms_to_ns(self.slo_ms),
        )

    def took_ns(self, rows: int, factor: float) -> int:
        return round(ms_to_ns(self.alpha_ms * rows + self.beta_ms) * factor)

    @property
    def missed(self) -> float:
        statistics = self.batcher.statistics()
        accepted = statistics.arrived - statistics.rejected - statistics.probes
        return (statistics.expired + self.late) / max(1, accepted)


class Run:
    """All models on one executor, until nothing is left to do."""

    def __init__(self, *models: Model) -> None:
        self.models = models
        self.turns = Turns(1)
        self.by_seat: dict[Seat, Model] = {m.batcher.share(self.turns): m for m in models}
        self.dice = Random(1)
        self.numbers = count()
        self.events: list[tuple[int, int, Model, Batch | Request | None]] = list(self.arrivals())
        heapify(self.events)
        while self.events:
            self.step()

    def arrivals(self) -> Iterator[tuple[int, int, Model, Request]]:
        for model in self.models:
            at_s = self.dice.expovariate(model.rate_rps)
            while at_s < SECONDS:
                at_ns = Nanoseconds(round(at_s * NS_PER_SECOND))
                until_ns = Nanoseconds(at_ns + ms_to_ns(model.slo_ms))
                yield at_ns, next(self.numbers), model, Request(1, None, at_ns, until_ns)
                at_s += self.dice.expovariate(model.rate_rps)

    def step(self) -> None:
        at_ns, _, model, what = heappop(self.events)
        now_ns = Nanoseconds(at_ns)
        if isinstance(what, Request):
            commands = model.batcher.on_arrival(what, now_ns)
        elif isinstance(what, Batch):
            commands = model.batcher.on_batch_end(what, now_ns)
        elif model.wake_at_ns == now_ns:
            commands = model.batcher.on_tick(now_ns)
        else:
            return  # the timer was moved
        self.obey(model, commands, now_ns)
        while (seat := self.turns.next_seat(now_ns)) is not None:
            other = self.by_seat[seat]
            self.obey(other, other.batcher.on_tick(now_ns), now_ns)

    def obey(self, model: Model, commands: list[Command], now_ns: Nanoseconds) -> None:
        for command in commands:
            if isinstance(command, StartBatch):
                factor = max(0.5, self.dice.gauss(1, NOISE))
                took_ns = model.took_ns(command.batch.rows, factor)
                heappush(self.events, (now_ns + took_ns, next(self.numbers), model, command.batch))
            elif isinstance(command, WakeAt):
                model.wake_at_ns = command.at_ns
                if command.at_ns is not None:
                    heappush(self.events, (command.at_ns, next(self.numbers), model, None))
            elif isinstance(command, Answer):
                done = [piece.request for piece in command.batch.pieces]
                in_time = [r.deadline_at_ns >= now_ns for r in done if r.state is State.ANSWERED]
                model.in_time += sum(in_time)
                model.late += len(in_time) - sum(in_time)


def large(slo_ms: float, rate_rps: float) -> Model:
    return Model(1.053, 5.072, slo_ms, rate_rps)


def small(slo_ms: float, rate_rps: float) -> Model:
    return Model(0.5, 3.0, slo_ms, rate_rps)


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(lambda: (large(50, 800), small(50, 1_500)), id="the same objective"),
        pytest.param(lambda: (large(50, 800), large(1_000, 800)), id="two objectives"),
        pytest.param(lambda: (large(50, 1_500), large(1_000, 100)), id="one of them is busy"),
        pytest.param(lambda: (large(50, 400), small(50, 800), large(1_000, 400)), id="three"),
    ],
)
def test_what_was_promised_on_a_shared_executor_is_kept_and_nobody_starves(models: object) -> None:
    assert callable(models)
    run = Run(*models())
    for model in run.models:
        assert model.missed < 0.03
        assert model.in_time > 0.05 * model.rate_rps * SECONDS
        statistics = model.batcher.statistics()
        assert statistics.unaccounted == statistics.waiting == statistics.running == 0
    busy = sum(
        batches * model.took_ns(rows, 1)
        for model in run.models
        for rows, batches in model.batcher.statistics().batches_by_rows.items()
    )
    assert busy > 0.95 * SECONDS * NS_PER_SECOND  # the executor does not idle meanwhile


def test_a_load_that_the_executor_can_carry_is_answered_in_time() -> None:
    run = Run(large(50, 100), small(50, 200))
    for model in run.models:
        assert model.missed == 0
        assert model.in_time == model.batcher.statistics().arrived


def test_a_model_that_believes_to_be_too_slow_learns_better_however_busy_the_others_are() -> None:
    gloomy = Model(0.5, 3.0, 50, 200, believed=16.0)
    Run(gloomy, large(50, 100))
    assert gloomy.in_time > 0.3 * gloomy.rate_rps * SECONDS
