"""Metric families from plain values, so that each takes one call."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from tidegate_realtime.api.histogram import Histogram

Labels: TypeAlias = Sequence[str]


def gauge(
    name: str, meaning: str, labels: Labels, values: Iterable[tuple[Labels, float]]
) -> GaugeMetricFamily:
    """Build a family of what is so now."""
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for found, value in values:
        family.add_metric(found, value)
    return family


def counter(
    name: str, meaning: str, labels: Labels, values: Iterable[tuple[Labels, float]]
) -> CounterMetricFamily:
    """Build a family of what only grows; ``name`` is without ``_total``."""
    family = CounterMetricFamily(name, meaning, labels=labels)
    for found, value in values:
        family.add_metric(found, value)
    return family


def histogram(
    name: str, meaning: str, labels: Labels, values: Iterable[tuple[Labels, Histogram]]
) -> HistogramMetricFamily:
    """Build a family of distributions."""
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for found, value in values:
        edges = [*map(str, value.edges), "+Inf"]
        family.add_metric(
            found, list(zip(edges, accumulate(value.counts), strict=True)), value.total
        )
    return family
