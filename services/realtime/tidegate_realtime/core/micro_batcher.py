"""The micro-batcher: events and the time in, commands out.

Late binding: a batch is chosen at the moment an executor is free, never earlier. With an idle
executor a request goes at once; while all are busy the queue fills, and the next batch takes what
is there, up to the cap. Nobody waits for company, so that batches grow with the load and with
nothing else.

Whatever the order of events, each request ends exactly once (``core.request``). Deadlines do not
depend on executors: a request that is late ends at once, wherever it is. Every event first ends
what is due, so an outcome depends on the time and not on whether a timer or a batch came first.
"""

from collections import Counter

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Expire,
    Fail,
    Reject,
    StartBatch,
    WakeAt,
)
from tidegate_realtime.core.deadline_queue import DeadlineQueue
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.request import Event, IllegalTransitionError, Request, State, advance
from tidegate_realtime.core.statistics import BatcherStatistics, DispatchReason, RefusalCode

RUNNING = State.RUNNING
"""A local name, because looking a member up in its class takes four times as long."""


class MicroBatcher:
    """Decides which requests run together, and how each one ends."""

    def __init__(self, *, executors: int, limits: BatchLimits) -> None:
        """Start with nothing queued.

        Args:
            executors: Batches that may run at the same time, at least 1.
            limits: The cap and the room in the queue.
        """
        self.limits = limits
        self._executors = executors
        self._queue = DeadlineQueue()
        self._running: list[Batch] = []
        self._draining = False
        self._wake_at_ns: Nanoseconds | None = None
        self._arrived = 0
        self._requests = dict.fromkeys(State, 0)  # except ARRIVING, which no request stays in
        self._rejected_by_code: dict[RefusalCode, int] = {"queue_full": 0, "draining": 0}
        self._batches_by_reason: dict[DispatchReason, int] = {"full": 0, "free": 0}
        self._batches_by_rows: Counter[int] = Counter()

    def on_arrival(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Queue a new request, or refuse it; it starts at once where an executor is idle."""
        if request.rows < 1:
            raise ValueError(f"a request needs at least 1 row, found {request.rows}")
        commands = self._expire_due(now_ns)
        refusal = self._refusal(request)
        self._move(request, Event.REFUSED if refusal else Event.ADMITTED)
        self._arrived += 1
        if refusal:
            self._rejected_by_code[refusal] += 1
            commands.append(Reject(request, refusal, self._queue.rows))
        elif request.deadline_at_ns <= now_ns:
            self._expire(request, commands)
        else:
            request.unanswered_rows = request.rows
            self._queue.push(request)
            self._dispatch(now_ns, commands)
        if commands or self._wake_at_ns is None or request.deadline_at_ns < self._wake_at_ns:
            self._wake(commands)
        return commands

    def on_cancel(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Forget a request whose caller left: rows that wait never run.

        Raises:
            IllegalTransitionError: The request has ended.
        """
        self._move(request, Event.CALLER_LEFT)
        self._queue.discard(request)
        commands = self._expire_due(now_ns)
        if commands or request.deadline_at_ns == self._wake_at_ns:
            self._wake(commands)
        return commands

    def on_batch_end(self, batch: Batch, now_ns: Nanoseconds) -> list[Command]:
        """Answer whom the batch completes, and use the executor that it leaves.

        Raises:
            IllegalTransitionError: The batch is not running.
        """
        commands = self._expire_due(now_ns)
        self._release(batch)
        for piece in batch.pieces:
            request = piece.request
            if request.state is RUNNING:
                request.unanswered_rows -= piece.rows
                if not request.unanswered_rows:
                    self._move(request, Event.BATCH_ENDED)
        self._dispatch(now_ns, commands)  # first: the executor idles until it is obeyed
        commands.append(Answer(batch))
        self._wake(commands)
        return commands

    def on_batch_failed(
        self, batch: Batch, error: BackendError, now_ns: Nanoseconds
    ) -> list[Command]:
        """Fail every request with rows in the batch, and nobody else.

        Raises:
            IllegalTransitionError: The batch is not running.
        """
        commands = self._expire_due(now_ns)
        self._release(batch)
        failed = [piece.request for piece in batch.pieces if piece.request.state is RUNNING]
        for request in failed:
            self._move(request, Event.BACKEND_FAILED)
            self._queue.discard(request)
        self._dispatch(now_ns, commands)
        commands.append(Fail(failed, error))
        self._wake(commands)
        return commands

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """End what is due; without effect if nothing is."""
        commands = self._expire_due(now_ns)
        self._wake(commands)
        return commands

    def on_drain(self, now_ns: Nanoseconds) -> list[Command]:
        """Refuse whatever arrives from now on; what was admitted goes on."""
        self._draining = True
        return self.on_tick(now_ns)

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended, and batches by size and reason."""
        requests = self._requests
        return BatcherStatistics(
            arrived=self._arrived,
            waiting=requests[State.WAITING],
            running=requests[State.RUNNING],
            answered=requests[State.ANSWERED],
            rejected=requests[State.REJECTED],
            expired=requests[State.EXPIRED],
            cancelled=requests[State.CANCELLED],
            failed=requests[State.FAILED],
            rejected_by_code=self._rejected_by_code.copy(),
            queue=self._queue.statistics(),
            batches_running=len(self._running),
            batches_by_reason=self._batches_by_reason.copy(),
            batches_by_rows=self._batches_by_rows.copy(),
        )

    def _refusal(self, request: Request) -> RefusalCode | None:
        if self._draining:
            return "draining"
        if self._queue.rows + request.rows > self.limits.queue_limit_rows:
            return "queue_full"
        return None

    def _dispatch(self, now_ns: Nanoseconds, commands: list[Command]) -> None:
        while self._queue.rows and len(self._running) < self._executors:
            pieces, blocked = self._queue.take(self.limits.cap_rows)
            batch = Batch(pieces, sum(p.rows for p in pieces), "full" if blocked else "free")
            for piece in pieces:
                request = piece.request
                if request.started_at_ns is None:
                    request.started_at_ns = now_ns
                    self._move(request, Event.BATCH_STARTED)
            self._running.append(batch)
            self._batches_by_reason[batch.reason] += 1
            self._batches_by_rows[batch.rows] += 1
            commands.append(StartBatch(batch))

    def _release(self, batch: Batch) -> None:
        if batch not in self._running:
            raise IllegalTransitionError(f"a batch of {batch.rows} rows ended that was not running")
        self._running.remove(batch)

    def _expire_due(self, now_ns: Nanoseconds) -> list[Command]:
        commands: list[Command] = []
        if self._wake_at_ns is None or now_ns < self._wake_at_ns:
            return commands
        for request in self._queue.take_due(now_ns):
            self._expire(request, commands)
        for batch in self._running:
            for piece in batch.pieces:
                if piece.request.deadline_at_ns > now_ns:
                    break  # the others are later still
                if piece.request.state is RUNNING:
                    self._expire(piece.request, commands)
        return commands

    def _expire(self, request: Request, commands: list[Command]) -> None:
        self._move(request, Event.DEADLINE_PASSED)
        commands.append(Expire(request))

    def _wake(self, commands: list[Command]) -> None:
        """Name the earliest deadline of all that waits and runs, if it is another than before."""
        earliest_ns = self._queue.earliest_deadline_at_ns()
        for batch in self._running:
            for piece in batch.pieces:
                if piece.request.state is RUNNING:
                    if earliest_ns is None or piece.request.deadline_at_ns < earliest_ns:
                        earliest_ns = piece.request.deadline_at_ns
                    break  # the others are later still
        if earliest_ns != self._wake_at_ns:
            self._wake_at_ns = earliest_ns
            commands.append(WakeAt(earliest_ns))

    def _move(self, request: Request, event: Event) -> None:
        before = request.state
        request.state = after = advance(before, event)
        self._requests[before] -= 1
        self._requests[after] += 1
