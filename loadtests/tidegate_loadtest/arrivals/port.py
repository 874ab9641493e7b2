"""What every source of arrivals offers."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Instants: TypeAlias = npt.NDArray[np.int64]
"""Shape ``(requests,)``: nanoseconds since the start, ascending, none negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """How much traffic is wanted; what comes first ends it."""

    requests: int | None = None
    duration_s: float | None = None


class Arrivals(Protocol):
    """Traffic that can be drawn again, at any rate."""

    def draw(self, span: Span, *, seed: int, scale: float = 1.0) -> Instants:
        """Draw the instants of one run; the same arguments give the same ones.

        Args:
            span: How much is wanted at most; a curve or a trace may end earlier.
            seed: Of the random numbers, where there are any.
            scale: What the rate is multiplied by, above 0.
        """
        ...
