"""The latency objective: what is promised to callers, and what batching is derived from."""

from dataclasses import dataclass
from typing import Final

from tidegate.errors import SettingError
from tidegate.units import Nanoseconds, ms_to_ns

DEFAULT_SLO_MS: Final = 100.0
"""What people feel as an immediate reaction (Nielsen, "Usability Engineering", 1993)."""
DEFAULT_PERCENTILE: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyObjective:
    """What is promised to callers of one model; batching limits are derived from it."""

    slo_ms: float = DEFAULT_SLO_MS
    """From the last byte of a request in to the last byte of its reply out. Above 0."""
    percentile: float = DEFAULT_PERCENTILE
    """Share of requests that must meet ``slo_ms``: 0.99 promises a p99. Above 0, below 1."""

    def __post_init__(self) -> None:
        """Refuse what no server could promise.

        Raises:
            SettingError: A number is out of its range (or is none, as NaN).
        """
        if not (0 < self.slo_ms < float("inf") and 0 < self.percentile < 1):
            raise SettingError(
                f"slo_ms={self.slo_ms} at percentile={self.percentile}: the first must be above "
                "0 ms, the second between 0 and 1. For 50 ms at p99 write 50 and 0.99."
            )

    @property
    def slo_ns(self) -> Nanoseconds:
        """The only place where this setting changes unit."""
        return ms_to_ns(self.slo_ms)
