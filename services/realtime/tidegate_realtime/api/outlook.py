"""What a version could take, and how long it has to go, from what is known of it now.

Full batches are those that leave room for who just missed one. Larger ones carry a little more, but
only under a load under which some are lost in any case, and that is no capacity to count on.
"""

from tidegate_realtime.core.pace import Pace

_NS_PER_SECOND = 1e9


def capacity_rows_per_second(pace: Pace) -> float:
    """Return what all executors do with full batches; 0 if nothing was measured."""
    call_s = _call_s(pace, pace.calm_rows)
    return pace.executors * pace.calm_rows / call_s if call_s else 0.0


def drain_seconds(pace: Pace, queued_rows: int) -> float:
    """Return how long the rows in the queue take if no more come; 0 if nothing was measured.

    What runs at this moment is not counted, so that an empty queue is 0.
    """
    full, rest = divmod(queued_rows, pace.calm_rows)
    work_s = full * _call_s(pace, pace.calm_rows) + (_call_s(pace, rest) if rest else 0.0)
    return work_s / pace.executors


def _call_s(pace: Pace, rows: int) -> float:
    model = pace.model
    return model.mean_ns(rows) / _NS_PER_SECOND if model is not None and pace.is_known else 0.0
