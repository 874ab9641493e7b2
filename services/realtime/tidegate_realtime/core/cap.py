"""How large a batch may be: derived from the objective and from measured times, never set.

The cap is the least of four bounds, in rows (symbols as in ``latency_model``; k executors, o the
overhead outside the model call):

- *slo*: the largest b with m(b) + o within the objective: one call alone must end in time. By the
  mean, because whoever is promised an answer was promised it by the tail (``admission``): a busy
  machine, whose tails grow, shall not cut every request into calls of one row.
- *knee*: the smallest b with at least 97 % of the best throughput b/m(b): no latency is spent for
  the last 3 %.
- *memory*: the largest b that fits the configured memory.
- *measured*: the largest size that was warmed. Beyond it nothing is promised.

b_slo is the largest b with (1 + 1/k)·L(b) + o within the objective: a request that just missed a
batch waits for an executor, then rides in its own batch. For k = 1 that is the half rule of Nexus
(Shen et al., SOSP 2019, section 4.1); for staggered executors Symphony's bound (Chen et al., arXiv
2308.07470). Only rows that cannot wait for another batch make one larger than that (``pace``).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.core.latency_model import LatencyModel

KNEE_SHARE: Final = 0.97
"""Of the best throughput; the rest is within the error of the measurement."""

CapReason = Literal["slo", "knee", "memory", "measured"]
"""Which bound is the least, and so what would change the cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The cap and the bounds that it comes from."""

    rows: int
    """Most rows in a batch: an allowed size."""
    limited_by: CapReason
    calm_rows: int
    """Most rows in a batch that leaves room for who just missed it: b_slo, and at most ``rows``."""
    slo_rows: int
    """b_slo; 0 if the objective leaves no time to wait for another batch."""
    knee_rows: int
    memory_rows: int
    """The largest measured size if memory is not limited."""
    warning: str | None
    """What the operator should know, and do; ``None`` if all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Not even one row is answered in time."""

    needed_ns: Nanoseconds
    """L(1) + o."""
    objective_ns: Nanoseconds
    percentile: float

    def message(self, model: str) -> str:
        """Say so to the operator, who named the model ``name@version``."""
        return (
            f"{model}: one row takes {_ms(self.needed_ns)} ms at p{100 * self.percentile:g}, the "
            f"objective is {_ms(self.objective_ns)} ms; raise slo_ms, use a faster variant, or set "
            "best_effort = true"
        )


def compute_cap(
    model: LatencyModel,
    *,
    objective_ns: Nanoseconds,
    overhead_ns: Nanoseconds,
    executors: int,
    memory_rows: int | None,
) -> Cap | Infeasible:
    """Derive the cap; to be repeated when ``model.revision`` has changed.

    Args:
        model: At least one size must have been observed.
        objective_ns: From the last byte in to the reply handed over. For a best-effort model its
            longest deadline.
        overhead_ns: o, the part of it outside the model call.
        executors: Batches that can run at the same time, at least 1.
        memory_rows: Most rows that fit in memory; ``None``: any number. At least the smallest
            allowed size, which is what one row is padded to.

    Raises:
        ValueError: Nothing was observed, or memory does not hold the smallest size.
    """
    alone_ns = model.tail_ns(1)
    budget_ns = objective_ns - overhead_ns
    if alone_ns > budget_ns:
        needed_ns = Nanoseconds(alone_ns + overhead_ns)
        return Infeasible(
            needed_ns=needed_ns, objective_ns=objective_ns, percentile=model.percentile
        )
    sizes = model.sizes
    bounds: dict[CapReason, int] = {  # among equals the first names the reason
        "measured": sizes[-1],
        "memory": sizes[-1] if memory_rows is None else _last(sizes, lambda b: b <= memory_rows),
        "slo": max(sizes[0], _last(sizes, lambda b: model.mean_ns(b) <= budget_ns)),
        "knee": _knee(model, sizes),
    }
    if not bounds["memory"]:
        raise ValueError(
            f"memory for {memory_rows} rows is less than the smallest size, {sizes[0]}"
        )
    limited_by = min(bounds, key=bounds.__getitem__)
    rows = bounds[limited_by]
    with_wait_ns = executors * budget_ns // (executors + 1)
    slo_rows = _last(sizes, lambda b: model.tail_ns(b) <= with_wait_ns)
    return Cap(
        rows=rows,
        limited_by=limited_by,
        calm_rows=max(sizes[0], min(rows, slo_rows)),
        slo_rows=slo_rows,
        knee_rows=bounds["knee"],
        memory_rows=bounds["memory"],
        warning=None if slo_rows else _warning(model, objective_ns, overhead_ns, executors),
    )


def _last(sizes: Sequence[int], fits: Callable[[int], bool]) -> int:
    """Return the largest size that fits, where all smaller ones do too; 0 if none does."""
    count = bisect_left(sizes, True, key=lambda size: not fits(size))
    return sizes[count - 1] if count else 0


def _knee(model: LatencyModel, sizes: Sequence[int]) -> int:
    throughputs = [size / model.mean_ns(size) for size in sizes]
    enough = KNEE_SHARE * max(throughputs)
    return next(size for size, each in zip(sizes, throughputs, strict=True) if each >= enough)


def _warning(model: LatencyModel, objective_ns: int, overhead_ns: int, executors: int) -> str:
    needed_ns = model.tail_ns(1) * (executors + 1) // executors + overhead_ns
    return (
        "a request that just missed a call may be late: the wait for an executor and its own call "
        f"take up to {_ms(needed_ns)} ms at p{100 * model.percentile:g}, the objective is "
        f"{_ms(objective_ns)} ms; raise slo_ms, use a faster variant, or add executors"
    )


def _ms(nanoseconds: int) -> str:
    """Write milliseconds, below one every digit, else to the next hundredth above.

    So a bound never reads as kept that is not, and a short one never as zero.
    """
    if nanoseconds < NS_PER_MS:
        return f"{nanoseconds / NS_PER_MS:.6f}".rstrip("0").removesuffix(".")
    return f"{math.ceil(nanoseconds / 10_000) / 100:g}"
