"""The chunk loop: gives chunks to workers and obeys the queue, until every chunk is committed."""

from typing import assert_never

from tidegate.observability import get_logger
from tidegate.units import NS_PER_SECOND, ns_to_seconds
from tidegate_batch.core.bad_rows import BadRowWatch
from tidegate_batch.core.chunks import HOPELESS_AFTER, ChunkQueue, WorkerId
from tidegate_batch.core.errors import ChunkFailedError, NoCommitError, WorkersFailedError
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.seat import Seat
from tidegate_batch.ports import (
    Assignment,
    Committed,
    Display,
    Engine,
    Failed,
    Leaving,
    Ready,
    Refused,
    WorkerEvent,
    WorkerLost,
    WorkerMessage,
    WorkerSaid,
)

_log = get_logger(__name__)
_LONGEST_WAIT_NS = NS_PER_SECOND // 2
"""A driver that was replaced, or whose job was cancelled, notices it this much later at most."""
_FAILED_STARTS = 3
"""In a row and for each worker wanted: a machine that cannot start any will not start the next."""


class ChunkLoop:
    """One driver's work on the chunks of a job."""

    def __init__(
        self,
        queue: ChunkQueue,
        engine: Engine,
        *,
        seat: Seat,
        parts: Parts,
        display: Display,
        bad_rows: BadRowWatch,
    ) -> None:
        self._queue = queue
        self._engine = engine
        self._seat = seat
        self._clock = parts.clock
        self._display = display
        self._new_id = parts.new_id
        self._bad_rows = bad_rows
        self._next_worker: WorkerId = 0
        self._starting: set[WorkerId] = set()
        self._ready: set[WorkerId] = set()
        self._idle: set[WorkerId] = set()
        self._leaving: set[WorkerId] = set()
        self._failed_starts = 0
        self._wanted = 0

    def run(self, *, workers: int) -> None:
        """Return when every chunk is committed.

        Args:
            workers: How many to start at once; work begins with the first that is ready.

        Raises:
            ChunkFailedError: A chunk's input or output failed for good.
            TooManyBadRowsError: More rows failed than the job allows.
            NoCommitError: Nothing was committed for too long.
            WorkersFailedError: No worker could be started.
            DriverReplacedError: Another driver took over.
        """
        self._wanted = min(workers, self._queue.statistics().pending)
        for _ in range(self._wanted):
            self._add_worker()
        while not self._queue.is_finished:
            self._show()
            self._assign()
            event = self._engine.next_event(self._wait_ns())
            if event is not None:
                self._on_event(event)
            self._queue.on_tick(self._clock.now_ns())
            self._seat.check()
            self._refuse_to_wait_for_ever()
        self._show()

    def _show(self) -> None:
        self._display.progress(
            self._queue.statistics(), workers=len(self._ready), rows_dlq=self._bad_rows.bad
        )

    def _assign(self) -> None:
        for worker in sorted(self._idle):
            lease = self._queue.lease(worker, self._clock.now_ns())
            if lease is None:
                return
            self._idle.remove(worker)
            if lease.is_isolated:
                _log.warning("chunk_isolated", chunk=lease.chunk.chunk, worker=worker)
            if lease.is_second:
                _log.info("second_attempt", chunk=lease.chunk.chunk, worker=worker)
            assignment = Assignment(
                chunk=lease.chunk.chunk, attempt=self._new_id(), is_isolated=lease.is_isolated
            )
            self._engine.assign(worker, assignment)

    def _wait_ns(self) -> int:
        until_tick_ns = self._queue.next_tick_at_ns() - self._clock.now_ns()
        return max(0, min(until_tick_ns, _LONGEST_WAIT_NS))

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case WorkerSaid(worker=worker, message=message):
                if worker not in self._leaving:
                    self._idle.add(worker)
                self._on_message(worker, message)
            case WorkerLost(worker=worker, reason=reason):
                self._on_lost(worker, reason)
            case _:
                assert_never(event)

    def _on_message(self, worker: WorkerId, message: WorkerMessage) -> None:
        match message:
            case Ready():
                self._starting.discard(worker)
                self._ready.add(worker)
                self._failed_starts = 0
            case Committed():
                self._on_committed(message)
            case Failed():
                self._on_failed(worker, message)
            case Leaving(reason=reason):
                _log.info("worker_leaves", worker=worker, reason=reason)
                self._leaving.add(worker)
                self._idle.discard(worker)
            case Refused(code=code, message=text):
                raise ChunkFailedError.of_worker(text, code=code)
            case _:
                assert_never(message)

    def _on_committed(self, committed: Committed) -> None:
        self._queue.on_committed(committed.id, self._clock.now_ns())
        rows = self._queue.rows_of(committed.id)
        self._bad_rows.on_committed(committed.chunk, rows=rows, reasons=committed.reasons)
        self._bad_rows.check()

    def _on_failed(self, worker: WorkerId, failed: Failed) -> None:
        """Have a chunk that failed for want of a part tried again, a few times; no other."""
        is_tried_again = failed.is_retriable and self._queue.on_retriable_failure(
            failed.id, worker, self._clock.now_ns()
        )
        if not is_tried_again:
            raise ChunkFailedError.of_worker(failed.message, code=failed.code)
        _log.warning("chunk_retried", chunk=failed.chunk, reason=failed.message)

    def _on_lost(self, worker: WorkerId, reason: str) -> None:
        """Replace a dead worker; whatever killed it is ordinary input, not the chunk's fault."""
        is_preempted = worker in self._leaving
        if worker in self._starting and not is_preempted:
            self._failed_starts += 1
        for group in (self._starting, self._ready, self._idle, self._leaving):
            group.discard(worker)
        self._queue.on_worker_lost(worker, is_preempted=is_preempted)
        leases_lost = self._queue.statistics().leases_lost
        job = self._seat.record.job
        _log.warning(
            "worker_lost", job_id=job, worker=worker, reason=reason, leases_lost=leases_lost
        )
        self._refuse_a_deadly_chunk(reason)
        if self._failed_starts >= _FAILED_STARTS * self._wanted:
            raise WorkersFailedError(
                f"{self._failed_starts} workers in a row died before they were ready; the last: "
                f"{reason}"
            )
        self._add_worker()

    def _refuse_a_deadly_chunk(self, reason: str) -> None:
        chunk = self._queue.deadly()
        if chunk is None:
            return
        rows = ", ".join(
            f"rows {piece.first_row} to {piece.first_row + piece.rows - 1} of input {piece.input}"
            for piece in chunk.pieces[:3]
        )
        raise ChunkFailedError(
            f"chunk {chunk.chunk} ({rows}, inputs counted from 0 as in the plan) was in the hands "
            f"of {HOPELESS_AFTER} workers that died, also when its rows were scored apart; the "
            f"last: {reason}. Look at these rows, and at this machine's memory; 'resume' tries "
            "again."
        )

    def _add_worker(self) -> None:
        worker = self._next_worker
        self._next_worker += 1
        self._starting.add(worker)
        self._engine.add_worker(worker)

    def _refuse_to_wait_for_ever(self) -> None:
        if not self._queue.is_stuck(self._clock.now_ns()):
            return
        totals = self._queue.statistics()
        limit_s = ns_to_seconds(self._queue.no_commit_limit_ns)
        raise NoCommitError(
            f"no chunk was committed for {limit_s:g} s: {totals.committed} of {totals.chunks} are "
            f"done, {totals.leased} are in the hands of {len(self._ready)} workers, and "
            f"{totals.leases_lost} leases were lost. See the workers' log, then resume the job; "
            "smaller chunks (--chunk-rows) of a new job take less time each."
        )
