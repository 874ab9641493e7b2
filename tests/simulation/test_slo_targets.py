"""The targets of the scheduler on a virtual clock: its own core, a noisy model, traffic by seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_loadtest.simulate.recording import Recording
from tidegate_loadtest.simulate.simulator import Simulator
from tidegate_realtime.core.cap import Cap
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request

OBJECTIVE_MS = 25.0
ALPHA_MS, BETA_MS = 1.053, 5.072  # ResNet50 on a GTX 1080Ti (Symphony, arXiv 2308.07470)


@dataclass
class Noisy:
    """10 % noise, and twice as slow from ``slow_from_s`` to ``slow_until_s``."""

    seed: int
    slow_from_s: float = 0.0
    slow_until_s: float = 0.0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def draw_ns(self, rows: int, now_ns: int) -> int:
        mean_ns = (ALPHA_MS * rows + BETA_MS) * NS_PER_MS
        slow = self.slow_from_s <= now_ns / NS_PER_SECOND < self.slow_until_s
        return int(mean_ns * max(0.5, self._random.gauss(1, 0.1)) * (2 if slow else 1))


def build(execution: Noisy) -> MicroBatcher:
    model = LatencyModel(percentile=0.99, sizes=None)
    for rows in range(1, 33):
        for _ in range(5):
            model.observe(rows, execution.draw_ns(rows, -1), Nanoseconds(0))
    return MicroBatcher(
        executors=1, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(OBJECTIVE_MS)
    )


def poisson(rate: float, seconds: float, seed: int) -> Iterator[Request]:
    random, at_s = Random(seed), 0.0
    while (at_s := at_s + random.expovariate(rate)) < seconds:
        at_ns = Nanoseconds(int(at_s * NS_PER_SECOND))
        yield Request(1, None, at_ns, Nanoseconds(at_ns + ms_to_ns(OBJECTIVE_MS)))


def late_of(recording: Recording, *, from_s: float = 0.0, until_s: float = 1e9) -> float:
    """Share of the accepted requests of a span that were not answered in time."""
    begin, end = from_s * NS_PER_SECOND, until_s * NS_PER_SECOND
    ended = [
        (ended_ns > deadline_ns)
        for at_ns, deadline_ns, ended_ns in zip(
            recording.answered_at_ns,
            recording.answered_deadline_ns,
            recording.answered_ended_ns,
            strict=True,
        )
        if begin <= at_ns < end
    ]
    expired = sum(begin <= at_ns < end for at_ns in recording.expired_at_ns)
    return (sum(ended) + expired) / (len(ended) + expired)


def goodput(recording: Recording, seconds: float) -> float:
    pairs = zip(recording.answered_ended_ns, recording.answered_deadline_ns, strict=True)
    return sum(ended <= deadline for ended, deadline in pairs) / seconds


def capacity() -> float:
    cap = build(Noisy(1)).pace.cap
    assert isinstance(cap, Cap)
    rows = cap.calm_rows  # larger ones leave no time to wait for the one before
    return rows / (ALPHA_MS * rows + BETA_MS) * 1_000


@pytest.mark.field_fault("S-08", "S-28")
def test_above_capacity_the_peak_is_kept_and_what_is_accepted_is_in_time() -> None:
    good = {}
    for overload in (1.0, 1.5, 2.0, 4.0):
        execution = Noisy(seed=11)
        simulator = Simulator(build(execution), execution)
        recording = simulator.run(poisson(overload * capacity(), 20, seed=12))
        good[overload] = goodput(recording, 20)
        assert late_of(recording) <= 0.01
        if overload > 1:
            assert recording.idle_while_rows_wait_ns == 0
    assert good[1.5] >= 0.95 * good[1.0]
    assert good[2.0] >= 0.95 * good[1.5]
    assert good[4.0] >= 0.95 * good[2.0]
    assert good[4.0] >= 0.95 * capacity()


@pytest.mark.parametrize("load", [0.9, 1.5])
def test_a_model_that_is_twice_as_slow_for_20_s_breaks_few_promises(load: float) -> None:
    execution = Noisy(seed=21, slow_from_s=10, slow_until_s=30)
    recording = Simulator(build(execution), execution).run(poisson(load * capacity(), 40, 22))
    assert late_of(recording, from_s=10, until_s=30) <= 0.05
    assert late_of(recording, from_s=13, until_s=30) <= 0.01
    assert late_of(recording, from_s=33) <= 0.01


def test_after_the_slow_time_the_goodput_is_what_it_was() -> None:
    rate = 1.5 * capacity()
    execution = Noisy(seed=31, slow_from_s=10, slow_until_s=20)
    recording = Simulator(build(execution), execution).run(poisson(rate, 40, 32))
    in_time = [
        at_ns / NS_PER_SECOND
        for at_ns, deadline_ns, ended_ns in zip(
            recording.answered_at_ns,
            recording.answered_deadline_ns,
            recording.answered_ended_ns,
            strict=True,
        )
        if ended_ns <= deadline_ns
    ]
    before = sum(1 <= at_s < 10 for at_s in in_time) / 9
    after = sum(23 <= at_s < 40 for at_s in in_time) / 17
    assert after >= 0.95 * before
