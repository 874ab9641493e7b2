"""What ``/metrics`` says: the counts of this process as Prometheus series.

Names and labels are documented in ``docs/metrics.md``. Everything is read at the moment of the
scrape, on the loop, so that the sums add up.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tidegate.clock import Clock
from tidegate.units import ns_to_seconds
from tidegate_realtime.api.metrics import GatewayMetrics, Histogram, MeasuredBackend
from tidegate_realtime.api.served import VARIANT, Catalogue, ServedVersion

BACKEND: Final = "onnxruntime"
_ROWS_EDGES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_VERSION_LABELS: Final = ("model", "version")


class GatewayCollector(Collector):
    """Turns counts into series."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        metrics: GatewayMetrics,
        backends: Sequence[MeasuredBackend],
        clock: Clock,
    ) -> None:
        """Read these.

        Args:
            catalogue: What is served.
            metrics: What the edge counts.
            backends: One per version of the catalogue, in its order.
            clock: The one that the drivers read.
        """
        self._catalogue = catalogue
        self._metrics = metrics
        self._backends = backends
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield each family once."""
        yield from self._requests()
        yield from self._objectives()
        yield from self._queues()
        yield from self._batches()
        yield self._loaded()

    def _requests(self) -> Iterator[Metric]:
        metrics = self._metrics
        arrivals = CounterMetricFamily(
            "tidegate_arrivals", "Prediction requests whose headers were read.", labels=["model"]
        )
        for model, count in metrics.arrivals.items():
            arrivals.add_metric([model], count)
        yield arrivals
        in_flight = GaugeMetricFamily(
            "tidegate_in_flight_requests", "Prediction requests not yet ended.", labels=["model"]
        )
        for model, count in metrics.in_flight.items():
            in_flight.add_metric([model], count)
        yield in_flight
        ended = CounterMetricFamily(
            "tidegate_requests",
            "Prediction requests by how they ended; reason is the code of the reply.",
            labels=[*_VERSION_LABELS, "outcome", "reason"],
        )
        for key, count in metrics.ended.items():
            ended.add_metric(key, count)
        yield ended
        durations = HistogramMetricFamily(
            "tidegate_request_duration_seconds",
            "From the last byte of a request to its reply; answered and expired ones.",
            labels=_VERSION_LABELS,
        )
        for labels, histogram in metrics.durations.items():
            _add(durations, labels, histogram)
        yield durations

    def _objectives(self) -> Iterator[Metric]:
        seconds = GaugeMetricFamily(
            "tidegate_slo_seconds", "Latency objective.", labels=_VERSION_LABELS[:1]
        )
        ratio = GaugeMetricFamily(
            "tidegate_slo_target_ratio", "Share of requests to meet it.", labels=["model"]
        )
        for served in {s.model.tag.name: s for s in self._catalogue.versions}.values():
            seconds.add_metric([served.model.tag.name], ns_to_seconds(served.objective.slo_ns))
            ratio.add_metric([served.model.tag.name], served.objective.percentile)
        yield from (seconds, ratio)

    def _queues(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily(
            "tidegate_queue_rows", "Rows that no batch has taken yet.", labels=_VERSION_LABELS
        )
        age = GaugeMetricFamily(
            "tidegate_queue_oldest_age_seconds",
            "How long the oldest request in the queue has waited.",
            labels=_VERSION_LABELS,
        )
        now_ns = self._clock.now_ns()
        for served in self._catalogue.versions:
            queue = served.driver.statistics().queue
            since_ns = queue.waiting_since_ns
            rows.add_metric(_labels(served), queue.rows)
            waited_ns = 0 if since_ns is None else now_ns - since_ns
            age.add_metric(_labels(served), ns_to_seconds(waited_ns))
        yield from (rows, age)

    def _batches(self) -> Iterator[Metric]:
        labels = [*_VERSION_LABELS, "backend"]
        count = CounterMetricFamily(
            "tidegate_batches",
            "Model calls; dispatch_reason is why they hold no more rows.",
            labels=[*labels, "dispatch_reason"],
        )
        rows = HistogramMetricFamily(
            "tidegate_batch_rows", "Rows of each model call.", labels=labels
        )
        seconds = HistogramMetricFamily(
            "tidegate_execution_seconds", "Duration of each model call.", labels=labels
        )
        for served, backend in zip(self._catalogue.versions, self._backends, strict=True):
            statistics = served.driver.statistics()
            for reason, batches in statistics.batches_by_reason.items():
                count.add_metric([*_labels(served), BACKEND, reason], batches)
            by_rows = Histogram(_ROWS_EDGES)
            for size, batches in statistics.batches_by_rows.items():
                by_rows.observe(size, times=batches)
            _add(rows, [*_labels(served), BACKEND], by_rows)
            _add(seconds, [*_labels(served), BACKEND], backend.seconds)
        yield from (count, rows, seconds)

    def _loaded(self) -> Metric:
        loaded = GaugeMetricFamily(
            "tidegate_model_loaded",
            "1 for each version that is loaded and warm.",
            labels=[*_VERSION_LABELS, "digest", "variant", "backend"],
        )
        for served in self._catalogue.versions:
            loaded.add_metric([*_labels(served), served.model.tag.digest, VARIANT, BACKEND], 1)
        return loaded


def _labels(served: ServedVersion) -> list[str]:
    return [served.response_tag.model_name, served.response_tag.model_version]


def _add(family: HistogramMetricFamily, labels: Sequence[str], histogram: Histogram) -> None:
    edges = [*map(str, histogram.edges), "+Inf"]
    buckets = list(zip(edges, accumulate(histogram.counts), strict=True))
    family.add_metric(labels, buckets, histogram.total)
