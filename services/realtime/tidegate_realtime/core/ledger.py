"""Where every request is, counted; and the only place that moves one."""

from collections import Counter
from collections.abc import Sequence

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Batch
from tidegate_realtime.core.executors import Executors
from tidegate_realtime.core.forecasts import Forecasts
from tidegate_realtime.core.probes import Probes
from tidegate_realtime.core.request import TABLE, Event, Request, State, advance
from tidegate_realtime.core.statistics import (
    REFUSAL_CODES,
    BatcherStatistics,
    DispatchReason,
    QueueStatistics,
    RefusalCode,
)
from tidegate_realtime.core.usual_rows import UsualRows
from tidegate_realtime.core.waits import OldestWaits

_STARTED = TABLE[State.WAITING, Event.BATCH_STARTED]
_ENDED = TABLE[State.RUNNING, Event.BATCH_ENDED]
_WAITING = TABLE[State.ARRIVING, Event.ADMITTED]
"""Local names, because looking a member up in its class takes four times as long."""


class Ledger:
    """Requests by state. Probes are moved as the others are, and not counted among them."""

    __slots__ = (
        "_usual",
        "arrived",
        "arrived_rows",
        "batches_by_reason",
        "batches_by_rows",
        "batches_terminated",
        "counts",
        "executors_given_up",
        "forecasts",
        "held",
        "held_in_vain",
        "late",
        "oldest_waits",
        "poison_rows",
        "refused_unread",
        "rejected_by_code",
    )

    def __init__(self) -> None:
        self.arrived = self.arrived_rows = 0
        self._usual = UsualRows()
        self.counts = dict.fromkeys(State, 0)  # except ARRIVING, which no request stays in
        self.rejected_by_code: Counter[RefusalCode] = Counter(dict.fromkeys(REFUSAL_CODES, 0))
        self.batches_by_reason: Counter[DispatchReason] = Counter()
        self.batches_by_rows: Counter[int] = Counter()
        self.oldest_waits = OldestWaits()
        self.batches_terminated = 0
        self.executors_given_up = 0
        self.held = self.held_in_vain = 0
        self.refused_unread = 0
        self.forecasts = Forecasts()
        self.late = 0
        self.poison_rows = 0

    @property
    def accepted(self) -> int:
        """Requests admitted so far, however they ended."""
        return self.arrived - self.counts[State.REJECTED] - self.counts[State.STANDBY]

    def usual_rows(self) -> int:
        """Take in what has arrived, and return the rows of a request of late, at least 1."""
        return self._usual.rows(self.arrived, self.arrived_rows)

    def move(self, request: Request, event: Event) -> None:
        """Apply an event to a request.

        Raises:
            IllegalTransitionError: It cannot happen in the state of the request.
        """
        before = request.state
        request.state = after = advance(before, event)
        if not request.is_probe:
            self.counts[before] -= 1
            self.counts[after] += 1

    def admit(self, request: Request) -> None:
        """Move a request that has just arrived: ``ADMITTED``, without a call."""
        request.state = _WAITING
        request.unanswered_rows = request.rows
        self.counts[_WAITING] += 1

    def hold(self, request: Request) -> None:
        """Let a request stand by that has just arrived."""
        self.move(request, Event.HELD)
        self.held += 1

    def start(self, batch: Batch, now_ns: Nanoseconds) -> None:
        """Count a batch that starts now, and move the requests whose first rows are in it."""
        moved = 0
        for piece in batch.pieces:
            request = piece.request
            if request.started_at_ns is None:
                request.started_at_ns = now_ns
                if request.state is _WAITING and not request.is_probe:
                    request.state = _STARTED  # ``BATCH_STARTED``, without a call
                    moved += 1
                else:
                    self.move(request, Event.BATCH_STARTED)
        self.counts[_WAITING] -= moved
        self.counts[_STARTED] += moved
        self.batches_by_reason[batch.reason] += 1
        self.batches_by_rows[batch.rows] += 1
        since_ns = min([piece.request.arrived_at_ns for piece in batch.pieces])
        self.oldest_waits.add(now_ns - since_ns)

    def end(self, answered: Sequence[Request], now_ns: Nanoseconds) -> None:
        """Count requests that were moved from ``RUNNING`` to ``ANSWERED`` now."""
        self.counts[_STARTED] -= len(answered)
        self.counts[_ENDED] += len(answered)
        self.forecasts.on_answered(answered, now_ns)

    def statistics(
        self, probes: Probes, queue: QueueStatistics, executors: Executors
    ) -> BatcherStatistics:
        """Put all counts together with what waits and runs."""
        counts = self.counts
        return BatcherStatistics(
            arrived=self.arrived,
            arrived_rows=self.arrived_rows,
            standby=counts[State.STANDBY],
            held=self.held,
            held_in_vain=self.held_in_vain,
            refused_unread=self.refused_unread,
            waiting=counts[State.WAITING],
            running=counts[State.RUNNING],
            answered=counts[State.ANSWERED],
            rejected=counts[State.REJECTED] - probes.started,
            expired=counts[State.EXPIRED],
            cancelled=counts[State.CANCELLED],
            failed=counts[State.FAILED],
            probes=probes.started,
            probes_ended=probes.ended,
            probes_in_time=probes.in_time,
            late=self.late,
            poison_rows=self.poison_rows,
            rejected_by_code=self.rejected_by_code.copy(),
            queue=queue,
            batches_running=len(executors.running),
            batches_terminated=self.batches_terminated,
            executors_usable=executors.usable,
            executors_given_up=self.executors_given_up,
            forecasts=self.forecasts.statistics(),
            batches_by_reason=self.batches_by_reason.copy(),
            batches_by_rows=self.batches_by_rows.copy(),
            oldest_waits=self.oldest_waits.statistics(),
        )
