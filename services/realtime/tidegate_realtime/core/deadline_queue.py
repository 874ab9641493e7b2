"""Rows that wait, the earliest deadline first."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Piece
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import QueueStatistics

ANY_SHAPE: Final = object()
"""The first request decides."""
Entry: TypeAlias = tuple[Nanoseconds, int, Request]
"""Deadline, number of the push, request."""
_SPARSE: Final = 32
"""Dead entries that are not worth a clean-up: their slots cost less than the pass over them."""


class DeadlineQueue:
    """Requests by deadline, first come first served among equals.

    A sorted list, since most requests arrive in the order of their deadlines: those are appended
    (O(1)), others are inserted by bisection. Removing marks the request (``waiting_rows`` = 0)
    and leaves its entry behind, dead, until more than half of the list is: so removing from any
    place costs O(1), amortised, and the walk in order stays a walk over a list.
    """

    __slots__ = (
        "_entries",
        "_head",
        "_key",
        "_last_at_ns",
        "_pushed",
        "one_shape",
        "requests",
        "rows",
    )

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._head = 0  # everything before is dead
        self._pushed = 0
        self._last_at_ns = 0
        self._key: Hashable = None
        self.one_shape = True
        """Whether all that was pushed since the queue was last empty has one shape key."""
        self.requests = 0
        """Requests with rows waiting."""
        self.rows = 0
        """Their waiting rows."""

    def push(self, request: Request, rows: int, *, rank_ns: Nanoseconds | None = None) -> None:
        """Queue the last ``rows`` of a request that is not in the queue.

        Args:
            request: Whose rows they are.
            rows: At least 1.
            rank_ns: Who has less goes first; by default the deadline.
        """
        self._pushed += 1
        at_ns = request.deadline_at_ns if rank_ns is None else rank_ns
        if not self.requests:
            self._empty()
            self._key = request.shape_key
            self.one_shape = True
        elif self.one_shape and request.shape_key != self._key:
            self.one_shape = False
        if not self._entries or at_ns >= self._last_at_ns:
            self._entries.append((at_ns, self._pushed, request))
            self._last_at_ns = at_ns
        else:
            insort(self._entries, (at_ns, self._pushed, request), lo=self._head)
        request.waiting_rows = rows
        self.requests += 1
        self.rows += rows

    def goes_last(self, request: Request) -> bool:
        """Whether a request would be appended, with the one shape that all others have."""
        return not self.requests or (
            request.deadline_at_ns >= self._last_at_ns
            and self.one_shape
            and request.shape_key == self._key
        )

    def is_last_at(self, deadline_at_ns: Nanoseconds) -> bool:
        """Whether a request with that deadline would be appended, its shape aside."""
        return not self.requests or deadline_at_ns >= self._last_at_ns

    def discard(self, request: Request) -> None:
        """Remove what waits of a request; without effect if nothing does."""
        if request.waiting_rows:
            self._remove(request, request.waiting_rows)
            self._tidy()

    def take(
        self, limit_rows: int, whole_rows: int, key: Hashable = ANY_SHAPE
    ) -> tuple[list[Piece], bool]:
        """Remove the rows of the next batch.

        The first request decides the shape; those of another shape keep their places. A request
        of at most ``whole_rows`` is taken whole or not at all, and the first one that does not
        fit ends the batch: nobody with a later deadline overtakes it. A larger request gives as
        many rows as there is room for, and the rest of it keeps its place.

        Args:
            limit_rows: Most rows to take, at least 1.
            whole_rows: Most rows of a request that is not cut.
            key: The shape, if it is decided already.

        Returns:
            Pieces by deadline, at most ``limit_rows`` rows in all; and whether lack of room ended
            the batch.
        """
        pieces: list[Piece] = []
        room = limit_rows
        blocked = False
        for _, _, request in islice(self._entries, self._head, None):
            rows = request.waiting_rows
            if not rows or (key is not ANY_SHAPE and request.shape_key != key):
                continue
            key = request.shape_key
            if rows > room:
                if request.rows <= whole_rows:
                    blocked = True
                    break
                rows = room
            pieces.append(Piece(request, request.rows - request.waiting_rows, rows))
            request.waiting_rows -= rows
            if not request.waiting_rows:
                self.requests -= 1
            room -= rows
            if not room:
                blocked = True
                break
        self.rows -= limit_rows - room
        if self.requests:
            self._tidy()
        else:
            self._empty()
        return pieces, blocked

    def least_rows(self, whole_rows: int, key: Hashable = ANY_SHAPE) -> int:
        """Return how much room the first request of a shape needs at least; 0 if there is none."""
        for request in self.in_order():
            if key is ANY_SHAPE or request.shape_key == key:
                return request.waiting_rows if request.rows <= whole_rows else 1
        return 0

    def take_due(self, until_ns: Nanoseconds) -> list[tuple[Request, int]]:
        """Remove every request with a deadline until then, the earliest first, with its rows."""
        due = []
        while (request := self.first()) and request.deadline_at_ns <= until_ns:
            due.append((request, request.waiting_rows))
            self._remove(request, request.waiting_rows)
        # ``first`` has passed them for good: they may be queued again, in another queue.
        if due:
            self._tidy()
        return due

    def earliest_deadline_at_ns(self) -> Nanoseconds | None:
        """Return the deadline of the first request; ``None`` if nothing waits."""
        request = self.first()
        return request.deadline_at_ns if request else None

    def rows_until(self, at_ns: int) -> int:
        """Count the rows that have a deadline until then."""
        if self._last_at_ns <= at_ns:
            return self.rows
        rows = 0
        for index in range(self._head, len(self._entries)):
            deadline_at_ns, _, request = self._entries[index]
            if deadline_at_ns > at_ns:
                break
            rows += request.waiting_rows
        return rows

    def first(self) -> Request | None:
        """Return the request with the earliest deadline; ``None`` if nothing waits."""
        while self._head < len(self._entries):
            request = self._entries[self._head][2]
            if request.waiting_rows:
                return request
            self._head += 1
        return None

    def in_order(self) -> Iterator[Request]:
        """Go through what waits, the earliest deadline first."""
        for index in range(self._head, len(self._entries)):
            request = self._entries[index][2]
            if request.waiting_rows:
                yield request

    def single_rows(self) -> list[Entry] | None:
        """List what waits; ``None`` unless all are requests of one row and one shape.

        So a plan can jump from batch to batch instead of looking at every row.
        """
        if not self.one_shape or self.requests != self.rows:
            return None
        self.first()
        waiting = self._entries[self._head :] if self._head else self._entries.copy()
        if len(waiting) == self.requests:
            return waiting
        return [entry for entry in waiting if entry[2].waiting_rows]

    def withdraw(self, request: Request) -> None:
        """Undo the last ``push``, as if it had not been."""
        del self._entries[
            bisect_left(
                self._entries, (request.deadline_at_ns, self._pushed, request), lo=self._head
            )
        ]
        self._remove(request, request.waiting_rows)
        self._last_at_ns = self._entries[-1][0] if self._entries else Nanoseconds(0)

    def statistics(self) -> QueueStatistics:
        """Count what waits; looks at every request, so not for the hot path."""
        waiting = list(self.in_order())
        since_ns = min((request.arrived_at_ns for request in waiting), default=None)
        return QueueStatistics(
            requests=self.requests,
            rows=self.rows,
            rows_by_class=(self.rows,),
            waiting_since_by_class=(since_ns,),
            waiting_since_ns=since_ns,
            earliest_deadline_at_ns=min((r.deadline_at_ns for r in waiting), default=None),
        )

    def _remove(self, request: Request, rows: int) -> None:
        request.waiting_rows -= rows
        self.rows -= rows
        if not request.waiting_rows:
            self.requests -= 1

    def _empty(self) -> None:
        self._entries.clear()
        self._head = 0

    def _tidy(self) -> None:
        if len(self._entries) > 2 * self.requests + _SPARSE:
            self._entries = [e for e in self._entries[self._head :] if e[2].waiting_rows]
            self._head = 0
