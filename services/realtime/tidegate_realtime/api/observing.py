"""What happened to one version between two looks at it."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from tidegate.clock import Clock
from tidegate.units import Nanoseconds, ns_to_ms, ns_to_seconds
from tidegate_realtime.api.caps import cap_numbers
from tidegate_realtime.api.explaining import Observed
from tidegate_realtime.api.metrics import GatewayMetrics, MeasuredBackend
from tidegate_realtime.api.outlook import capacity_rows_per_second
from tidegate_realtime.api.served import Catalogue, ServedVersion

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Counts since the start, at one moment."""

    at_ns: Nanoseconds
    answered: int
    expired: int
    refused: Mapping[str, int]
    request_seconds: float
    """Of all requests that have ended, added up."""
    rows_by_batches: Mapping[int, int]
    reasons: Mapping[str, int]
    busy_seconds: float
    calls: int
    """That have ended."""

    @classmethod
    def at(
        cls,
        served: ServedVersion,
        backend: MeasuredBackend,
        metrics: GatewayMetrics,
        now_ns: Nanoseconds,
    ) -> Self:
        """Take one."""
        statistics = served.driver.statistics()
        tag = served.response_tag
        durations = metrics.durations[tag.model_name, tag.model_version]
        return cls(
            at_ns=now_ns,
            answered=statistics.answered,
            expired=statistics.expired,
            refused={str(code): count for code, count in statistics.rejected_by_code.items()},
            request_seconds=durations.total,
            rows_by_batches=dict(statistics.batches_by_rows),
            reasons={str(reason): n for reason, n in statistics.batches_by_reason.items()},
            busy_seconds=backend.seconds.total,
            calls=sum(backend.seconds.counts),
        )


class Observer:
    """Watches a version for a while."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        """Read these."""
        self._catalogue = catalogue
        self._metrics = metrics
        self._clock = clock

    async def watch(self, name: str, at: str | None, *, window_s: float) -> Observed:
        """Wait, and tell what happened meanwhile; cancelling leaves nothing behind.

        Raises:
            ModelNotServedError, VersionNotServedError: As ``Catalogue.find``.
        """
        served = self._catalogue.find(name, at)
        before = self._look(served)
        await asyncio.sleep(window_s)
        return observe(served, before, self._look(served))

    def _look(self, served: ServedVersion) -> Look:
        assert served.measured is not None, "whoever is observed is measured"
        return Look.at(served, served.measured, self._metrics, self._clock.now_ns())


def observe(served: ServedVersion, before: Look, after: Look) -> Observed:
    """Compare two looks; ``after`` was taken now."""
    window_s = ns_to_seconds(after.at_ns - before.at_ns)
    sizes = _more(after.rows_by_batches, before.rows_by_batches)
    busy_s, calls = after.busy_seconds - before.busy_seconds, after.calls - before.calls
    pace, model = served.driver.pace, served.driver.latency_model
    return Observed(
        model=str(served.model.tag),
        window_s=window_s,
        objective_ms=served.objective.slo_ms,
        one_row_ms=ns_to_ms(served.one_row_ns),
        cap=cap_numbers(pace),
        answered=after.answered - before.answered,
        expired=after.expired - before.expired,
        refused=_more(after.refused, before.refused),
        in_progress=(after.request_seconds - before.request_seconds) / window_s,
        batches=sum(sizes.values()),
        rows=sum(rows * batches for rows, batches in sizes.items()),
        reasons=_more(after.reasons, before.reasons),
        call_ms=1_000 * busy_s / calls if calls else 0.0,
        busy_ratio=min(1.0, busy_s / window_s / pace.executors),
        arriving_per_second=pace.rate.smooth_rows_per_second(after.at_ns),
        capacity_per_second=capacity_rows_per_second(pace),
        slower_ratio=1.0 if model is None else model.statistics().tail_factor,
    )


def _more(after: Mapping[_Key, int], before: Mapping[_Key, int]) -> dict[_Key, int]:
    return dict(Counter(after) - Counter(before))
