"""What happened to one version between two looks at it."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from tidegate.clock import Clock
from tidegate.units import Nanoseconds, ns_to_ms, ns_to_seconds
from tidegate_realtime.api.caps import cap_numbers, caps_by_tokens
from tidegate_realtime.api.explaining import Observed
from tidegate_realtime.api.histogram import Histogram
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.outlook import capacity_rows_per_second
from tidegate_realtime.api.served import Catalogue, ServedVersion, one_row_ns
from tidegate_realtime.core.statistics import BatcherStatistics

GLANCES: Final = 40
"""At what is in progress, while it watches: enough to tell a steady number from one by chance."""
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Counts since the start, at one moment."""

    at_ns: Nanoseconds
    statistics: BatcherStatistics
    request_seconds: float
    """Of all requests that were answered or expired, added up."""
    refusals: int
    refusal_seconds: float
    """Of these, added up."""
    calls: int
    """That have ended."""
    busy_seconds: float
    """Of these, added up."""
    others_busy_seconds: float
    """Of the versions that share the executors."""

    @classmethod
    def at(
        cls,
        served: ServedVersion,
        others: Sequence[ServedVersion],
        metrics: GatewayMetrics,
        now_ns: Nanoseconds,
    ) -> Self:
        """Take one."""
        calls = _calls_of(served)
        version = served.response_tag.model_name, served.response_tag.model_version
        refusals = metrics.refusal_times[version]
        return cls(
            at_ns=now_ns,
            statistics=served.driver.statistics(),
            request_seconds=metrics.durations[version].total,
            refusals=sum(refusals.counts),
            refusal_seconds=refusals.total,
            calls=sum(calls.counts),
            busy_seconds=calls.total,
            others_busy_seconds=sum(_calls_of(other).total for other in others),
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
        others = self._sharing_with(served)
        most, before = 0, self._look(served, others)
        for _ in range(GLANCES):
            await asyncio.sleep(window_s / GLANCES)
            most = max(most, served.driver.statistics().in_progress)
        after = self._look(served, others)
        return observe(served, others, before, after, most_in_progress=most)

    def _sharing_with(self, served: ServedVersion) -> Sequence[ServedVersion]:
        shared = served.driver.shared
        if shared is None:
            return ()
        versions = self._catalogue.versions
        return [each for each in versions if each.driver.shared is shared and each is not served]

    def _look(self, served: ServedVersion, others: Sequence[ServedVersion]) -> Look:
        return Look.at(served, others, self._metrics, self._clock.now_ns())


def observe(
    served: ServedVersion,
    others: Sequence[ServedVersion],
    before: Look,
    after: Look,
    *,
    most_in_progress: int,
) -> Observed:
    """Compare two looks; ``after`` was taken now."""
    window_s = ns_to_seconds(after.at_ns - before.at_ns)
    was, now = before.statistics, after.statistics
    sizes = _more(now.batches_by_rows, was.batches_by_rows)
    busy_s, calls = after.busy_seconds - before.busy_seconds, after.calls - before.calls
    refusals = after.refusals - before.refusals
    refusal_s = after.refusal_seconds - before.refusal_seconds
    pace, model, executors = served.driver.pace, served.driver.latency_model, _executors_of(served)
    executors_s = window_s * executors
    return Observed(
        model=str(served.model.tag),
        window_s=window_s,
        objective_ms=served.objective.slo_ms,
        one_row_ms=ns_to_ms(one_row_ns(served.driver.busiest)),
        cap=cap_numbers(pace),
        answered=now.answered - was.answered,
        expired=now.expired - was.expired,
        refused=_more(now.rejected_by_code, was.rejected_by_code),
        held_in_vain=now.held_in_vain - was.held_in_vain,
        refusal_ms=1_000 * refusal_s / refusals if refusals else 0.0,
        in_progress=(after.request_seconds - before.request_seconds) / window_s,
        most_in_progress=most_in_progress,
        batches=sum(sizes.values()),
        rows=sum(rows * batches for rows, batches in sizes.items()),
        reasons=_more(now.batches_by_reason, was.batches_by_reason),
        call_ms=1_000 * busy_s / calls if calls else 0.0,
        busy_ratio=min(1.0, busy_s / executors_s),
        arriving_per_second=(now.arrived_rows - was.arrived_rows) / window_s,
        capacity_per_second=capacity_rows_per_second(served.driver, after.at_ns),
        objective_percentile=served.objective.percentile,
        promised_percentile=served.promised_percentile,
        slower_ratio=1.0 if model is None else model.statistics().tail_factor,
        terminated=now.batches_terminated - was.batches_terminated,
        given_up=now.executors_given_up - was.executors_given_up,
        executors=executors,
        executors_usable=now.executors_usable,
        sharing=[str(each.model.tag) for each in others],
        tokens=caps_by_tokens(served.driver).get("cap_tokens"),
        others_busy_ratio=(after.others_busy_seconds - before.others_busy_seconds) / executors_s,
    )


def _calls_of(served: ServedVersion) -> Histogram:
    assert served.measured is not None, "whoever is observed is measured"
    return served.measured.seconds


def _executors_of(served: ServedVersion) -> int:
    assert served.measured is not None, "likewise"
    return served.measured.executors


def _more(after: Mapping[_Key, int], before: Mapping[_Key, int]) -> dict[_Key, int]:
    return dict(Counter(after) - Counter(before))
