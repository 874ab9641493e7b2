"""Arrivals at one rate, for as long as is asked."""

from dataclasses import dataclass

import numpy as np

from tidegate.errors import SettingError
from tidegate.units import NS_PER_SECOND
from tidegate_loadtest.arrivals.port import Instants, Span
from tidegate_loadtest.arrivals.renewal import POISSON, Renewal

DEFAULT_REQUESTS = 100_000
"""Where nobody says how many: p99 rests on 1,000 requests, and a run takes about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyArrivals:
    """A constant rate with random gaps: Poisson, or Gamma where ``gaps.cv`` is not 1."""

    rate_rps: float
    gaps: Renewal = POISSON

    def __post_init__(self) -> None:
        """Refuse a rate at which nothing would ever come."""
        if not 0 < self.rate_rps < float("inf"):
            raise SettingError(f"rate {self.rate_rps}/s: it must be above 0 and finite.")

    def draw(self, span: Span, *, seed: int, scale: float = 1.0) -> Instants:
        """Draw ``span``; 100,000 requests where it is open."""
        rate = self.rate_rps * scale
        if span.duration_s is None:
            wanted = DEFAULT_REQUESTS if span.requests is None else span.requests
            positions = self.gaps.first(wanted, seed=seed)
        else:
            positions = self.gaps.until(rate * span.duration_s, seed=seed)[: span.requests]
        return (positions * (NS_PER_SECOND / rate)).astype(np.int64)
