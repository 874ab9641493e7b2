"""What ``/metrics`` says: the counts of this process as Prometheus series.

Names and labels are documented in ``docs/metrics.md``. Everything is read at the moment of the
scrape, on the loop, so that the sums add up.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidegate.clock import Clock
from tidegate.units import ns_to_seconds
from tidegate_realtime.api.admin.families import counter, gauge, histogram
from tidegate_realtime.api.admin.hosting_series import HostCounts, hosting_families
from tidegate_realtime.api.admin.scheduling import (
    VERSION,
    Snapshot,
    call_families,
    executor_families,
    forecast_families,
    queue_families,
    refusal_families,
)
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.served import Catalogue

MODEL: Final = ("model",)


class GatewayCollector(Collector):
    """Turns counts into series."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        metrics: GatewayMetrics,
        clock: Clock,
        host: HostCounts | None = None,
    ) -> None:
        """Read these.

        Args:
            catalogue: What is served.
            metrics: What the edge counts.
            clock: The one that the drivers read.
            host: What loads and unloads; ``None`` where nothing ever changes.
        """
        self._catalogue = catalogue
        self._metrics = metrics
        self._clock = clock
        self._host = host

    def snapshots(self) -> list[Snapshot]:
        """Look at every version at this moment."""
        now_ns = self._clock.now_ns()
        return [
            Snapshot(served, served.measured, served.driver.statistics(), now_ns)
            for served in self._catalogue.versions
            if served.measured is not None
        ]

    def refused(self, code: str) -> None:
        """Count what the admin listener itself refused, with what the public one did."""
        self._metrics.refused(code)

    def collect(self) -> Iterator[Metric]:
        """Yield each family once."""
        snapshots = self.snapshots()
        yield from self._requests()
        yield from self._stage_times()
        yield from self._objectives()
        yield from queue_families(snapshots)
        yield from refusal_families(snapshots)
        yield from executor_families(snapshots)
        yield from call_families(snapshots)
        yield from forecast_families(snapshots)
        yield gauge(
            "tidegate_model_loaded",
            "1 for each version that is loaded and warm.",
            (*VERSION, "digest", "variant", "backend"),
            [
                ((*each.labels, s.model.tag.digest, s.variant, s.backend), 1)
                for each in snapshots
                for s in (each.served,)
            ],
        )
        if self._host is not None:
            yield from hosting_families(self._host)

    def _requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield counter(
            "tidegate_arrivals",
            "Prediction requests whose headers were read.",
            MODEL,
            [([model], count) for model, count in metrics.arrivals.items()],
        )
        yield gauge(
            "tidegate_in_flight_requests",
            "Prediction requests not yet ended.",
            MODEL,
            [([model], count) for model, count in metrics.in_flight.items()],
        )
        yield counter(
            "tidegate_requests",
            "Prediction requests by how they ended; reason is the code of the reply.",
            (*VERSION, "outcome", "reason"),
            metrics.ended.items(),
        )
        yield counter(
            "tidegate_guard_refusals",
            "HTTP requests that were refused before it was known whether they are predictions.",
            ("guard",),
            [([code], count) for code, count in metrics.refusals.items()],
        )
        yield histogram(
            "tidegate_request_duration_seconds",
            "From the last byte of a request to its reply; answered and expired ones.",
            VERSION,
            metrics.durations.items(),
        )
        yield histogram(
            "tidegate_refusal_seconds",
            "From the last byte of a request to its refusal by the scheduler.",
            VERSION,
            metrics.refusal_times.items(),
        )
        yield counter(
            "tidegate_stage_seconds",
            "Time that answered requests spent in each stage.",
            (*VERSION, "stage"),
            [
                ((*version, stage), ns_to_seconds(spent_ns))
                for version, stages in metrics.stages.items()
                for stage, spent_ns in stages.by_name().items()
            ],
        )
        yield gauge(
            "tidegate_reading_waiting_requests",
            "Requests whose texts or images no thread decodes yet.",
            (),
            [((), metrics.waiting_to_be_read())],
        )
        yield histogram(
            "tidegate_reading_seconds",
            "Decoding the texts or images of a request, on its thread.",
            VERSION,
            metrics.reading_times.items(),
        )

    def _stage_times(self) -> Iterator[Metric]:
        """Nothing, unless somebody wants them."""
        if self._metrics.stage_times:
            yield histogram(
                "tidegate_stage_duration_seconds",
                "Time that each answered request spent in each stage.",
                (*VERSION, "stage"),
                [
                    ((*version, stage), times)
                    for version, by_stage in self._metrics.stage_times.items()
                    for stage, times in by_stage.by_stage.items()
                ],
            )

    def _objectives(self) -> Iterator[Metric]:
        objectives = {s.model.tag.name: s.objective for s in self._catalogue.versions}.items()
        yield gauge(
            "tidegate_slo_seconds",
            "Latency objective.",
            MODEL,
            [([name], ns_to_seconds(objective.slo_ns)) for name, objective in objectives],
        )
        yield gauge(
            "tidegate_slo_target_ratio",
            "Share of requests to meet it.",
            MODEL,
            [([name], objective.percentile) for name, objective in objectives],
        )
        slo = self._metrics.slo.items()
        yield counter(
            "tidegate_slo_requests",
            "Requests that count for the objective, and have ended.",
            VERSION,
            [(version, counts.requests) for version, counts in slo],
        )
        yield counter(
            "tidegate_slo_good",
            "Of these, requests that were answered in time.",
            VERSION,
            [(version, counts.good) for version, counts in slo],
        )
