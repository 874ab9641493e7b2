"""Series of queues, model calls and forecasts, one set for each version."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from tidegate.units import Nanoseconds, ns_to_seconds
from tidegate_realtime.api.admin.families import counter, gauge, histogram
from tidegate_realtime.api.caps import cap_numbers
from tidegate_realtime.api.histogram import Histogram
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.outlook import (
    arriving_rows_per_second,
    capacity_rows_per_second,
    drain_seconds,
)
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.core.forecasts import RATIO_EDGES
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.core.waits import WAIT_EDGES_NS

VERSION: Final = ("model", "version")
_CALL: Final = (*VERSION, "backend")
_CLASSES: Final = ("1", "2", "3", "late")
_ROWS_EDGES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Snapshot(NamedTuple):
    """One version at one moment."""

    served: ServedVersion
    backend: MeasuredBackend
    statistics: BatcherStatistics
    now_ns: Nanoseconds

    @property
    def labels(self) -> tuple[str, str]:
        """Its model and version."""
        return self.served.response_tag.model_name, self.served.response_tag.model_version

    @property
    def call(self) -> tuple[str, str, str]:
        """The same with what executes it."""
        return (*self.labels, self.served.backend)

    @property
    def pace(self) -> Pace:
        """What is known of its speed."""
        return self.served.driver.pace

    @property
    def oldest_s(self) -> list[float]:
        """How long the oldest request of each class has waited; 0 where none waits."""
        return [
            0.0 if since_ns is None else ns_to_seconds(self.now_ns - since_ns)
            for since_ns in self.statistics.queue.waiting_since_by_class
        ]

    @property
    def oldest_waits(self) -> Histogram:
        """Of each model call, the longest wait in it."""
        found, edges_s = self.statistics.oldest_waits, map(ns_to_seconds, WAIT_EDGES_NS)
        return Histogram.of([*edges_s], found.counts, ns_to_seconds(Nanoseconds(found.total_ns)))

    @property
    def forecasts(self) -> Histogram:
        """Of each answer, what it took by what was foretold."""
        found = self.statistics.forecasts
        return Histogram.of(RATIO_EDGES, found.counts, found.total)

    @property
    def batch_rows(self) -> Histogram:
        """Rows of the model calls so far."""
        rows = Histogram(_ROWS_EDGES)
        for size, batches in self.statistics.batches_by_rows.items():
            rows.observe(size, times=batches)
        return rows


def queue_families(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    """Yield what waits, what arrives, and what could be taken."""
    yield gauge(
        "tidegate_queue_rows",
        "Rows that no batch has taken yet.",
        (*VERSION, "class"),
        [
            ((*each.labels, name), rows)
            for each in snapshots
            for name, rows in zip(_CLASSES, each.statistics.queue.rows_by_class, strict=True)
        ],
    )
    yield gauge(
        "tidegate_queue_oldest_age_seconds",
        "How long the oldest request in the queue has waited.",
        (*VERSION, "class"),
        [
            ((*each.labels, name), waited_s)
            for each in snapshots
            for name, waited_s in zip(_CLASSES, each.oldest_s, strict=True)
        ],
    )
    yield gauge(
        "tidegate_standby_requests",
        "Requests that are promised no place and not refused yet.",
        VERSION,
        [(each.labels, each.statistics.standby) for each in snapshots],
    )
    yield gauge(
        "tidegate_predicted_drain_seconds",
        "How long the rows in the queue take if no more come.",
        VERSION,
        [(each.labels, drain_seconds(each.served.driver)) for each in snapshots],
    )
    yield gauge(
        "tidegate_arrival_rows_per_second",
        "Rows that arrived over the last 10 s, refused ones too.",
        VERSION,
        [
            (each.labels, arriving_rows_per_second(each.served.driver, each.now_ns))
            for each in snapshots
        ],
    )
    yield gauge(
        "tidegate_capacity_rows_per_second",
        "Rows that all executors take with full batches.",
        VERSION,
        [
            (each.labels, capacity_rows_per_second(each.served.driver, each.now_ns))
            for each in snapshots
        ],
    )


def refusal_families(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    """Yield how it was found out that a request could not be answered."""
    yield counter(
        "tidegate_stood_by",
        "Requests that have stood by.",
        VERSION,
        [(each.labels, each.statistics.held) for each in snapshots],
    )
    yield counter(
        "tidegate_stood_by_in_vain",
        "Of these, requests that were refused in the end.",
        VERSION,
        [(each.labels, each.statistics.held_in_vain) for each in snapshots],
    )
    yield counter(
        "tidegate_unread_refusals",
        "Requests that were refused before anybody had read them.",
        VERSION,
        [(each.labels, each.statistics.refused_unread) for each in snapshots],
    )
    yield counter(
        "tidegate_probes",
        "Refused requests that ran all the same, by whether refusing was wrong.",
        (*VERSION, "would_have_met"),
        [
            ((*each.labels, str(met).lower()), count)
            for each in snapshots
            for met, count in (
                (True, each.statistics.probes_in_time),
                (False, each.statistics.probes_ended - each.statistics.probes_in_time),
            )
        ],
    )


def executor_families(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    """Yield which executors there are, and what became of the calls that had to be ended."""
    yield gauge(
        "tidegate_executors",
        "Executors that are there; fewer while one is being replaced.",
        _CALL,
        [(each.call, each.statistics.executors_usable) for each in snapshots],
    )
    yield counter(
        "tidegate_executors_given_up",
        "Executors whose call hung, and that were replaced or are being.",
        _CALL,
        [(each.call, each.statistics.executors_given_up) for each in snapshots],
    )
    yield counter(
        "tidegate_terminated_calls",
        "Model calls that were asked to end early, because nobody waited for them any more.",
        _CALL,
        [(each.call, each.statistics.batches_terminated) for each in snapshots],
    )


def call_families(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    """Yield what was executed."""
    yield counter(
        "tidegate_batches",
        "Model calls; dispatch_reason is why they hold no more rows.",
        (*_CALL, "dispatch_reason"),
        [
            ((*each.call, reason), batches)
            for each in snapshots
            for reason, batches in each.statistics.batches_by_reason.items()
        ],
    )
    yield histogram(
        "tidegate_batch_rows",
        "Rows of each model call.",
        _CALL,
        [(each.call, each.batch_rows) for each in snapshots],
    )
    yield histogram(
        "tidegate_batch_oldest_wait_seconds",
        "How long whoever had waited longest in a model call had waited when it began.",
        _CALL,
        [(each.call, each.oldest_waits) for each in snapshots],
    )
    yield histogram(
        "tidegate_execution_seconds",
        "Duration of each model call.",
        _CALL,
        [(each.call, each.backend.seconds) for each in snapshots],
    )
    yield counter(
        "tidegate_executor_busy_seconds",
        "Time that executors spent in model calls that have ended.",
        _CALL,
        [(each.call, each.backend.seconds.total) for each in snapshots],
    )
    yield counter(
        "tidegate_padding_rows",
        "Rows computed only because the model allows no smaller batch.",
        _CALL,
        [(each.call, each.backend.padding_rows) for each in snapshots],
    )
    yield counter(
        "tidegate_poison_rows",
        "Rows that fail alone while others succeed.",
        VERSION,
        [(each.labels, each.statistics.poison_rows) for each in snapshots],
    )
    yield counter(
        "tidegate_token_positions",
        "Positions that texts were laid out in, by whether a token or padding fills them.",
        (*VERSION, "kind"),
        [
            ((*each.labels, kind), count)
            for each in snapshots
            for padding in (each.served.model.padding,)
            for kind, count in (("token", padding.tokens), ("padding", padding.padding))
        ],
    )


def forecast_families(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    """Yield what is foretold, and how right that was."""
    yield gauge(
        "tidegate_cap_rows",
        "Most rows of a model call; beyond slo, up to effective, only of rows that cannot wait.",
        (*VERSION, "limit"),
        [
            ((*each.labels, limit), rows)
            for each in snapshots
            for limit, rows in cap_numbers(each.pace).rows().items()
        ],
    )
    yield histogram(
        "tidegate_forecast_ratio",
        "Time to an answer by what was foretold when the request came.",
        VERSION,
        [(each.labels, each.forecasts) for each in snapshots],
    )
    yield histogram(
        "tidegate_call_forecast_ratio",
        "Duration of a model call by what was promised for its size when it began.",
        VERSION,
        [(each.labels, each.backend.forecast) for each in snapshots],
    )
    learned = [
        (each.labels, each.served.driver.latency_model.statistics())
        for each in snapshots
        if each.served.driver.latency_model is not None
    ]
    yield gauge(
        "tidegate_conformal_factor",
        "What promises are scaled by to the latest calls; above 1, they were slower than foretold.",
        VERSION,
        [(labels, model.tail_factor) for labels, model in learned],
    )
    yield gauge(
        "tidegate_promised_percentile",
        "At which promises are made: below that of the objective while nobody could be given one.",
        VERSION,
        [(each.labels, each.served.promised_percentile) for each in snapshots],
    )
    yield counter(
        "tidegate_change_points",
        "Lasting changes of speed that were noticed.",
        VERSION,
        [(each.labels, changes) for each in snapshots if (changes := _changes(each)) is not None],
    )


def _changes(snapshot: Snapshot) -> int | None:
    models = [part.latency_model for part in snapshot.served.driver.parts]
    learned = [model.statistics() for model in models if model is not None]
    return sum(each.slowdowns + each.speedups for each in learned) if learned else None
