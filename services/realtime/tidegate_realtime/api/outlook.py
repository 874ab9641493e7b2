"""What a version could take, and how long it has to go, from what is known of it now.

Full batches are those that leave room for who just missed one. Larger ones carry a little more, but
only under a load under which some are lost in any case, and that is no capacity to count on.
"""

from tidegate.units import Nanoseconds
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.runtime.buckets import Driver

_NS_PER_SECOND = 1e9


def arriving_rows_per_second(driver: Driver, now_ns: Nanoseconds) -> float:
    """Return what arrived over the last 10 s, refused or not."""
    return sum(part.pace.rate.smooth_rows_per_second(now_ns) for part in driver.parts)


def capacity_rows_per_second(driver: Driver, now_ns: Nanoseconds) -> float:
    """Return what all executors do with full batches; 0 if nothing was measured.

    Where rows of some lengths take longer than others, it is of lengths mixed as they arrive.
    """
    if len(driver.parts) > 1:
        paces = [part.pace for part in driver.parts if part.pace.is_known]
        rates = [pace.rate.smooth_rows_per_second(now_ns) for pace in paces]
        busy = sum(rate / _capacity(pace) for rate, pace in zip(rates, paces, strict=True))
        if busy:
            return sum(rates) / busy
    return _capacity(driver.pace)


def drain_seconds(driver: Driver) -> float:
    """Return how long the rows in the queue take if no more come; 0 if nothing was measured.

    What runs at this moment is not counted, so that an empty queue is 0.
    """
    return sum(_drain_s(part.pace, part.statistics().queue.rows) for part in driver.parts)


def _capacity(pace: Pace) -> float:
    call_s = _call_s(pace, pace.calm_rows)
    return pace.executors * pace.calm_rows / call_s if call_s else 0.0


def _drain_s(pace: Pace, queued_rows: int) -> float:
    full, rest = divmod(queued_rows, pace.calm_rows)
    work_s = full * _call_s(pace, pace.calm_rows) + (_call_s(pace, rest) if rest else 0.0)
    return work_s / pace.executors


def _call_s(pace: Pace, rows: int) -> float:
    model = pace.model
    return model.mean_ns(rows) / _NS_PER_SECOND if model is not None and pace.is_known else 0.0
