"""The last line about a model: how all of its requests ended."""

from typing import Final

from tidegate.observability import get_logger
from tidegate_realtime.core.statistics import BatcherStatistics

log: Final = get_logger(__name__)
_COUNTED: Final = ("arrived", "answered", "rejected", "expired", "cancelled", "failed", "probes")


def report_totals(model: str, statistics: BatcherStatistics, *, settled: int) -> None:
    """Log the counts, as an error if they show that a request was lost or ended twice.

    Args:
        model: What logs call it.
        statistics: After the last request has ended.
        settled: Futures that were completed.
    """
    totals = {name: getattr(statistics, name) for name in _COUNTED}
    if statistics.unaccounted or settled != statistics.arrived:
        log.error("totals_differ", model=model, settled=settled, **totals)
    else:
        log.info("model_closed", model=model, **totals)
