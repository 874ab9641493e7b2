"""The last line about the callers of a model: how every request ended, wherever it was ended."""

from collections import Counter
from typing import Final

from tidegate.observability import get_logger
from tidegate_realtime.api.errors import DrainingError
from tidegate_realtime.api.metrics import GatewayMetrics, OutcomeLabel

log: Final = get_logger(__name__)


def report_requests(metrics: GatewayMetrics) -> None:
    """Log one line for each model; ``model_closed`` has only what reached a version's queue.

    Args:
        metrics: After the drain. What is in flight then was cut off, and has no outcome.
    """
    for model in sorted(metrics.arrivals):
        ended, draining = Counter(dict.fromkeys(OutcomeLabel, 0)), 0
        for key, requests in metrics.ended.items():
            if key.model == model:
                ended[key.outcome] += requests
                draining += requests if key.reason == DrainingError.code else 0
        log.info(
            "requests_ended",
            model=model,
            arrived=metrics.arrivals[model],
            **{outcome.value: ended[outcome] for outcome in OutcomeLabel},
            refused_draining=draining,
            cut_off=metrics.in_flight[model],
        )
