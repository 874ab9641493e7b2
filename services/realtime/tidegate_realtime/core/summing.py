"""Statistics of several batchers that serve one model, as if there were one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from tidegate_realtime.core.statistics import BatcherStatistics

_INSTANTS: Final = frozenset(
    {"waiting_since_ns", "waiting_since_by_class", "earliest_deadline_at_ns"}
)
"""Of which the earliest counts."""


def summed(parts: Sequence[BatcherStatistics]) -> BatcherStatistics:
    """Add up at least one; the executors are those of one backend, which all of them share."""
    total: BatcherStatistics = _added(parts)
    return replace(total, executors_usable=min(part.executors_usable for part in parts))


def _added(parts: Sequence[Any]) -> Any:  # noqa: ANN401 - numbers, and whatever holds some
    """Add numbers by their place, names and keys."""
    first = parts[0]
    if is_dataclass(first) and not isinstance(first, type):
        found = {
            each.name: (_earliest if each.name in _INSTANTS else _added)(
                [getattr(part, each.name) for part in parts]
            )
            for each in fields(first)
        }
        return replace(first, **found)
    if isinstance(first, Mapping):
        total: Counter[Any] = Counter()
        for part in parts:
            total.update(part)
        return dict(total)
    if isinstance(first, Sequence):
        return tuple(map(_added, zip(*parts, strict=True)))
    return sum(parts)


def _earliest(parts: Sequence[Any]) -> Any:  # noqa: ANN401 - an instant, or several
    if isinstance(parts[0], tuple):
        return tuple(map(_first, zip(*parts, strict=True)))
    return _first(parts)


def _first(instants: Iterable[int | None]) -> int | None:
    return min((each for each in instants if each is not None), default=None)
