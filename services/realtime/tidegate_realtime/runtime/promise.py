"""What a model version promises its callers, as far as scheduling needs to know."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.sweep import POWERS_OF_TWO

WARM_UP_NS: Final = Nanoseconds(NS_PER_SECOND)
"""Enough for small models; a large one is measured less often, never less far."""
MAX_DEADLINE_NS: Final = Nanoseconds(60 * NS_PER_SECOND)
"""As long as callers wait at most."""

REFUSING_NS: Final = Nanoseconds(NS_PER_SECOND)
"""After a refusal others are looked at before they are read, for so long: where nobody is refused
that is a tenth of what a small request costs, for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """An objective, and how it is to be kept."""

    slo_ns: Nanoseconds
    """From the last byte of a request in to the reply handed over."""
    percentile: float = 0.99
    """Share of requests that must meet it; above 0, below 1."""
    best_effort: bool = False
    """Answer everything, however late: nothing is refused, expired or dropped."""
    max_deadline_ns: Nanoseconds = MAX_DEADLINE_NS
    """What a best-effort model derives its cap from."""
    sizes: Sequence[int] = POWERS_OF_TWO
    """Allowed sizes of a batch, rising; those that are measured before the first caller."""
    is_padded: bool = True
    """Whether each call has one of these sizes. Where it has exactly the rows that it is given, a
    call of 9 rows takes less than one of 16, and lies between those that were measured."""
    warm_up_budget_ns: Nanoseconds = WARM_UP_NS
    """How long to measure before the first caller."""
    warm_up_rest_ratio: float = 0.0
    """How long to leave the machine to those who serve after each measured call, by its time."""

    @property
    def objective_ns(self) -> Nanoseconds:
        """What the cap is derived from."""
        return self.max_deadline_ns if self.best_effort else self.slo_ns

    def sizes_for(self, fixed_rows: int | None) -> Sequence[int]:
        """Return the allowed sizes; a backend with a fixed size has only that one."""
        return self.sizes if fixed_rows is None else (fixed_rows,)

    def latency_model(self, fixed_rows: int | None) -> LatencyModel:
        """Build a model that knows nothing yet."""
        is_padded = self.is_padded or fixed_rows is not None
        sizes = self.sizes_for(fixed_rows) if is_padded else None
        return LatencyModel(percentile=self.percentile, sizes=sizes)
