"""Which batch size to time next, and when enough is known: the sweep that warms a model up.

First it rises: 1, 2, 4, … rows, a few runs of each, until more rows stop paying. Then it refines:
what is left of the time budget goes to the sizes nearest the knee, where the cap will lie. The
first run of a size is never counted: it pays for kernels, arenas and pages, and no caller shall.

The caller runs what ``next_rows`` asks for and reports it, until there is nothing to ask::

    while (rows := sweep.next_rows(clock.now_ns())) is not None:
        took_ns = …
        sweep.on_run(rows, took_ns, clock.now_ns())
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

POWERS_OF_TWO: Final = tuple(2**power for power in range(9))
"""1 to 256. Beyond, a call occupies an executor for longer than it saves."""
LEAST_GAIN: Final = 0.03
"""Of throughput, by doubling the rows: no latency is spent for the last 3 %."""
FLAT_DOUBLINGS: Final = 2
"""Doublings without that gain that end the rise; sizes may lie closer together. One is not enough:
VGG16 as Nexus published it (bundled as ``titanx-vgg16``) loses 13 % at 2 rows and has won 88 % at
32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLimits:
    """How far and how long to look."""

    budget_ns: int
    """For all runs. The rise goes on beyond it, with ``hasty_runs`` a size: a budget never decides
    how large batches may become."""
    sizes: tuple[int, ...] = POWERS_OF_TWO
    """Candidates, rising; those that the model allows."""
    objective_ns: int | None = None
    """The rise ends at the first size whose median takes longer, which no cap could allow."""
    fewest_runs: int = 5
    """Of each size while the budget lasts."""
    hasty_runs: int = 2
    """Of each size afterwards."""
    most_runs: int = 20


class Sweep:
    """Runs so far, and what they say about the next one."""

    def __init__(self, limits: SweepLimits, *, now_ns: int) -> None:
        self._limits = limits
        self._ends_at_ns = now_ns + limits.budget_ns
        self._runs: dict[int, list[int]] = {}
        self._place: int | None = 0
        """Of the size that the rise is at, among the candidates; ``None`` once it has ended."""
        self._best_throughput = 0.0
        self._gained_rows = 0
        """The last size of the rise that gained."""

    @property
    def runs(self) -> Mapping[int, tuple[int, ...]]:
        """Execution times in nanoseconds by rows, without first runs and without failed sizes."""
        return {rows: tuple(took) for rows, took in self._runs.items() if took}

    def next_rows(self, now_ns: int) -> int | None:
        """Return the size to run next; ``None`` when nothing is left to do."""
        if self._place is not None:
            return self._limits.sizes[self._place]
        typical_ns = self._typical_ns()
        if not typical_ns:
            return None
        knee = knee_rows(typical_ns)
        left_ns = self._ends_at_ns - now_ns
        open_sizes = (
            (max(rows, knee) / min(rows, knee), rows)
            for rows, took_ns in typical_ns.items()
            if took_ns <= left_ns and len(self._runs[rows]) < self._limits.most_runs
        )
        return min(open_sizes, default=(0, None))[1]

    def on_run(self, rows: int, took_ns: int, now_ns: int) -> None:
        """Take note of one run."""
        if rows not in self._runs:
            self._runs[rows] = []
            return
        self._runs[rows].append(took_ns)
        if self._place is not None and len(self._runs[rows]) >= self._enough(now_ns):
            self._rise(rows, median(self._runs[rows]))

    def on_failed(self, rows: int) -> None:
        """Take note that the model cannot run that many rows: out of memory, or fixed shapes."""
        self._runs.pop(rows, None)
        self._place = None

    def _enough(self, now_ns: int) -> int:
        limits = self._limits
        return limits.fewest_runs if now_ns < self._ends_at_ns else limits.hasty_runs

    def _rise(self, rows: int, typical_ns: float) -> None:
        throughput = rows / max(1, typical_ns)
        if throughput >= self._best_throughput * (1 + LEAST_GAIN):
            self._gained_rows = rows
        self._best_throughput = max(self._best_throughput, throughput)
        limits = self._limits
        too_slow = limits.objective_ns is not None and typical_ns > limits.objective_ns
        is_last = rows == limits.sizes[-1]
        is_flat = rows >= self._gained_rows * 2**FLAT_DOUBLINGS
        if is_last or too_slow or is_flat:
            self._place = None
        else:
            self._place = limits.sizes.index(rows) + 1

    def _typical_ns(self) -> dict[int, float]:
        return {rows: median(took) for rows, took in self._runs.items() if took}


def knee_rows(typical_ns: Mapping[int, float]) -> int:
    """Return the fewest rows that reach 97 % of the best throughput.

    Args:
        typical_ns: At least one size, with how long a call of it takes.
    """
    throughput = {rows: rows / max(1, took_ns) for rows, took_ns in typical_ns.items()}
    enough = max(throughput.values()) * (1 - LEAST_GAIN)
    return min(rows for rows, each in throughput.items() if each >= enough)
