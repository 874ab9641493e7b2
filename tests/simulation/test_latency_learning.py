"""The latency model over tens of thousands of noisy batches: coverage and change points.

Every sequence is seeded, so that a failure repeats.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.core.latency_model import LatencyModel

POWERS = (1, 2, 4, 8, 16, 32)


@dataclass
class Machine:
    """ResNet50 on a 1080 Ti (1.053·b + 5.072 ms, arXiv 2308.07470) with lognormal noise."""

    random: random.Random
    cv: float
    sizes: Sequence[int] | None = POWERS
    stall_probability: float = 0.0

    def __post_init__(self) -> None:
        self.model = LatencyModel(percentile=0.99, sizes=self.sizes)
        self.now_ns = 0
        self.sigma = math.sqrt(math.log1p(self.cv**2))
        for rows in POWERS:  # the warm-up sweep
            for _ in range(10):
                self.observe(rows, self.draw_ns(rows))

    def draw_ns(self, rows: int, slowness: float = 1.0) -> int:
        if self.sizes:
            rows = next(size for size in self.sizes if size >= rows)
        noise = math.exp(self.random.gauss(-(self.sigma**2) / 2, self.sigma))
        stall = 10 if self.random.random() < self.stall_probability else 1
        return round((1.053 * rows + 5.072) * NS_PER_MS * noise * stall * slowness)

    def observe(self, rows: int, took_ns: int) -> None:
        self.now_ns += took_ns
        self.model.observe(rows, took_ns, Nanoseconds(self.now_ns))

    def run(self, batches: int, slowness: Callable[[int], float] = lambda _: 1.0) -> float:
        """Return the share of batches within what was promised before they ran."""
        kept = 0
        for i in range(batches):
            rows = self.random.randint(1, POWERS[-1])
            took_ns = self.draw_ns(rows, slowness(i))
            kept += took_ns <= self.model.tail_ns(rows)
            self.observe(rows, took_ns)
        return kept / batches

    @property
    def changes(self) -> tuple[int, int]:
        statistics = self.model.statistics()
        return statistics.slowdowns, statistics.speedups


@pytest.mark.parametrize("sizes", [POWERS, None], ids=["padded", "every size"])
@pytest.mark.parametrize("cv", [0.03, 0.1, 0.5])
@pytest.mark.parametrize("stall_probability", [0.0, 0.005])
def test_a_p99_is_kept_by_99_of_100_batches(
    sizes: Sequence[int] | None, cv: float, stall_probability: float
) -> None:
    machine = Machine(random.Random(7), cv, sizes, stall_probability)
    assert 0.985 <= machine.run(10_000) <= 0.995


@pytest.mark.parametrize("seed", range(3))
def test_20_000_batches_of_one_kind_are_no_change(seed: int) -> None:
    machine = Machine(random.Random(seed), cv=0.1)
    assert 0.985 <= machine.run(20_000) <= 0.995
    assert machine.changes == (0, 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("cv", "within"), [(0.03, 4), (0.1, 5), (0.3, 25)])
def test_a_doubling_and_its_end_are_found_within_a_few_batches(
    seed: int, cv: float, within: int
) -> None:
    machine = Machine(random.Random(seed), cv)
    machine.run(500)
    machine.run(within, lambda _: 2.0)
    assert machine.changes == (1, 0)
    machine.run(500, lambda _: 2.0)
    assert machine.model.mean_ns(8) == pytest.approx(2 * 13.496 * NS_PER_MS, rel=max(0.05, cv / 2))
    machine.run(within)
    assert machine.changes == (1, 1)
    machine.run(500)
    assert machine.model.mean_ns(8) == pytest.approx(13.496 * NS_PER_MS, rel=max(0.05, cv / 2))


def test_a_slow_drift_is_followed_without_a_change() -> None:
    machine = Machine(random.Random(3), cv=0.1)
    kept = machine.run(20_000, lambda i: 1 + i / 20_000)
    assert 0.98 <= kept <= 0.995
    assert machine.changes == (0, 0)
    assert machine.model.mean_ns(32) == pytest.approx(2 * 38.768 * NS_PER_MS, rel=0.05)


def test_the_same_seed_learns_the_same() -> None:
    first, second = (Machine(random.Random(11), cv=0.3) for _ in range(2))
    assert first.run(2_000) == second.run(2_000)
    assert first.model.statistics() == second.model.statistics()
    assert first.model.revision == second.model.revision
