"""What the policies of other systems share: a queue in the order of arrival, nobody refused.

None of them cares for a deadline that its rule does not mention: a late request is answered late,
and counted so.
"""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Expire,
    Fail,
    Piece,
    StartBatch,
    WakeAt,
)
from tidegate_realtime.core.request import Request, State

WAITING, RUNNING, ANSWERED = State.WAITING, State.RUNNING, State.ANSWERED


@dataclass(frozen=True, slots=True)
class Take:
    """Run the oldest rows now."""

    rows: int
    """At most; as many as wait if those are fewer."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Give the oldest requests up."""

    requests: int


@dataclass(frozen=True, slots=True)
class HoldUntil:
    """Wait for company, at the longest until then."""

    at_ns: Nanoseconds


Choice: TypeAlias = Take | Drop | HoldUntil


class FifoPolicy(ABC):
    """One queue and identical executors; a subclass chooses whenever one of them is idle.

    Requests have one row each, as in the papers, so that ``len(waiting)`` counts rows.
    """

    def __init__(self, *, executors: int, largest_rows: int | None) -> None:
        """Start with nothing queued.

        Args:
            executors: Batches that may run at the same time.
            largest_rows: Most rows that the model takes in one call; ``None``: no limit.
        """
        self.waiting: deque[Request] = deque()
        self.executors = executors
        self.largest_rows = largest_rows
        self._idle = executors

    @abstractmethod
    def decide(self, now_ns: Nanoseconds) -> Choice:
        """Choose for an idle executor; at least one request waits."""

    def observe(self, batch: Batch, now_ns: Nanoseconds) -> None:
        """Learn from a batch that has ended, before the next choice; most have nothing to."""
        del batch, now_ns

    def limit(self, rows: int) -> int:
        """Keep a wish within what the model takes."""
        return rows if self.largest_rows is None else min(rows, self.largest_rows)

    def on_arrival(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Queue it, and choose at once where an executor is idle."""
        request.state = WAITING
        self.waiting.append(request)
        return self._dispatch(now_ns) if self._idle else []

    def on_cancel(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Take it out of the queue; rows that run are computed and dropped."""
        del now_ns
        if request.state is WAITING:
            self.waiting.remove(request)
        request.state = State.CANCELLED
        return []

    def on_batch_end(self, batch: Batch, now_ns: Nanoseconds) -> list[Command]:
        """Answer everybody in the batch, and use the executor that it leaves."""
        self._idle += 1
        for piece in batch.pieces:
            if piece.request.state is RUNNING:
                piece.request.state = ANSWERED
        self.observe(batch, now_ns)
        commands = self._dispatch(now_ns)
        commands.append(Answer(batch))
        return commands

    def on_batch_failed(
        self, batch: Batch, error: BackendError, now_ns: Nanoseconds
    ) -> list[Command]:
        """Fail everybody in the batch, as those systems do, and use the executor that it leaves."""
        self._idle += 1
        failed = [piece.request for piece in batch.pieces if piece.request.state is RUNNING]
        for request in failed:
            request.state = State.FAILED
        commands = self._dispatch(now_ns)
        commands.append(Fail(failed, error))
        return commands

    def on_executor_change(self, by: int, now_ns: Nanoseconds) -> list[Command]:
        """Use executors that have come; nothing here gives one up."""
        self._idle += by
        return self._dispatch(now_ns)

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """Choose again: what was held has waited long enough."""
        return self._dispatch(now_ns)

    def _dispatch(self, now_ns: Nanoseconds) -> list[Command]:
        commands: list[Command] = []
        while self._idle and self.waiting:
            choice = self.decide(now_ns)
            if isinstance(choice, Take):
                commands.append(self._start(choice.rows, now_ns))
            elif isinstance(choice, Drop):
                commands += self._drop(choice.requests)
            else:
                commands.append(WakeAt(choice.at_ns))
                break
        return commands

    def _start(self, rows: int, now_ns: Nanoseconds) -> StartBatch:
        taken = [self.waiting.popleft() for _ in range(min(rows, len(self.waiting)))]
        for request in taken:
            request.state = RUNNING
            request.started_at_ns = now_ns
        self._idle -= 1
        pieces = [Piece(request, 0, 1) for request in taken]
        return StartBatch(Batch(pieces, len(pieces), "full" if self.waiting else "free"))

    def _drop(self, requests: int) -> list[Command]:
        dropped = [self.waiting.popleft() for _ in range(requests)]
        for request in dropped:
            request.state = State.EXPIRED
        return [Expire(request) for request in dropped]
