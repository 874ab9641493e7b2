"""Statistics of several batchers that serve one model, as if there were one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

from tidegate_realtime.core.forecasts import ForecastStatistics
from tidegate_realtime.core.statistics import BatcherStatistics, QueueStatistics

_COUNTS: Final = [each.name for each in fields(BatcherStatistics) if each.type is int]
_COUNTERS: Final = ("rejected_by_code", "batches_by_reason", "batches_by_rows")
_T = TypeVar("_T", bound=int)


def summed(parts: Sequence[BatcherStatistics], *, executors: int) -> BatcherStatistics:
    """Add them up.

    Args:
        parts: At least one.
        executors: That they share; each part counts those as usable that it did not have to give
            up.
    """
    found: dict[str, Any] = {
        name: sum(getattr(part, name) for part in parts) for name in _COUNTS
    } | {name: _added(getattr(part, name) for part in parts) for name in _COUNTERS}
    missing = sum(executors - part.executors_usable for part in parts)
    found["executors_usable"] = max(0, executors - missing)
    found["queue"] = _queue([part.queue for part in parts])
    found["forecasts"] = _forecasts([part.forecasts for part in parts])
    return BatcherStatistics(**found)


def _queue(queues: Sequence[QueueStatistics]) -> QueueStatistics:
    since_by_class = zip(*(each.waiting_since_by_class for each in queues), strict=True)
    return QueueStatistics(
        requests=sum(each.requests for each in queues),
        rows=sum(each.rows for each in queues),
        rows_by_class=_by_place(each.rows_by_class for each in queues),
        waiting_since_by_class=tuple(map(_earliest, since_by_class)),
        waiting_since_ns=_earliest(each.waiting_since_ns for each in queues),
        earliest_deadline_at_ns=_earliest(each.earliest_deadline_at_ns for each in queues),
    )


def _forecasts(parts: Sequence[ForecastStatistics]) -> ForecastStatistics:
    return ForecastStatistics(
        counts=_by_place(each.counts for each in parts), total=sum(each.total for each in parts)
    )


def _by_place(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*rows, strict=True))


def _earliest(instants: Iterable[_T | None]) -> _T | None:
    return min((each for each in instants if each is not None), default=None)


def _added(counters: Iterable[Mapping[Any, int]]) -> dict[Any, int]:
    total: Counter[Any] = Counter()
    for each in counters:
        total.update(each)
    return dict(total)
