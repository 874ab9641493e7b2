"""Arrivals that were recorded: exact instants, replayed as they were."""

from dataclasses import dataclass

import numpy as np

from tidegate.units import seconds_to_ns
from tidegate_loadtest.arrivals.port import Instants, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedArrivals:
    """The same instants in every run; no seed changes them."""

    at_ns: Instants

    def draw(self, span: Span, *, seed: int, scale: float = 1.0) -> Instants:
        """Take the first part; ``scale`` plays the recording faster, all gaps alike."""
        at_ns = (self.at_ns / scale).astype(np.int64) if scale != 1 else self.at_ns
        if span.duration_s is not None:
            at_ns = at_ns[: np.searchsorted(at_ns, seconds_to_ns(span.duration_s))]
        return at_ns[: span.requests]


def spread_evenly(at_ns: Instants, *, resolution_ns: int) -> Instants:
    """Undo a clock that was coarser than its column.

    Where every instant is a multiple of one step above ``resolution_ns``, those that share an
    instant are spread evenly over the step that follows it; else nothing changes.
    """
    distinct, counts = np.unique(at_ns, return_counts=True)
    step_ns = int(np.gcd.reduce(np.diff(distinct), initial=0))
    if distinct.size == at_ns.size or step_ns <= resolution_ns:
        return at_ns
    first = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(at_ns.size) - first
    return at_ns + (place * step_ns) // np.repeat(counts, counts)
