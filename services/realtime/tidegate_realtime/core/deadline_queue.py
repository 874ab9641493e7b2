"""Rows that wait, the earliest deadline first."""

from bisect import insort

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Piece
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import QueueStatistics

_SPARSE: int = 32
"""Dead entries that are not worth a clean-up: their slots cost less than the pass over them."""


class DeadlineQueue:
    """Requests by deadline, first come first served among equals.

    A sorted list, since most requests arrive in the order of their deadlines: those are appended
    (O(1)), others are inserted by bisection. Removing marks the request (``waiting_rows`` = 0)
    and leaves its entry behind, dead, until more than half of the list is: so removing from any
    place costs O(1), amortised, and the walk in order stays a walk over a list.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[Nanoseconds, int, Request]] = []
        self._head = 0  # everything before is dead
        self._pushed = 0
        self.requests = 0
        """Requests with rows waiting."""
        self.rows = 0
        """Their waiting rows."""

    def push(self, request: Request) -> None:
        """Queue all rows of a request that was never queued before."""
        self._pushed += 1
        entry = (request.deadline_at_ns, self._pushed, request)
        if not self._entries or entry > self._entries[-1]:
            self._entries.append(entry)
        else:
            insort(self._entries, entry, lo=self._head)
        request.waiting_rows = request.rows
        self.requests += 1
        self.rows += request.rows

    def discard(self, request: Request) -> None:
        """Remove what waits of a request; without effect if nothing does."""
        if request.waiting_rows:
            self._remove(request, request.waiting_rows)
            self._tidy()

    def take(self, limit_rows: int) -> tuple[list[Piece], bool]:
        """Remove the rows of the next batch.

        The first request decides the shape; those of another shape keep their places. A request
        of at most ``limit_rows`` is taken whole or not at all, and the first one that does not
        fit ends the batch: nobody with a later deadline overtakes it. A larger request gives as
        many rows as there is room for, and the rest of it keeps its place.

        Args:
            limit_rows: Most rows to take, at least 1.

        Returns:
            Pieces by deadline, at most ``limit_rows`` rows in all, empty only if nothing waits;
            and whether lack of room ended the batch.
        """
        pieces: list[Piece] = []
        room = limit_rows
        key = None
        blocked = False
        for index in range(self._head, len(self._entries)):
            request = self._entries[index][2]
            rows = request.waiting_rows
            if not rows or (pieces and request.shape_key != key):
                continue
            if rows > room:
                if request.rows <= limit_rows:
                    blocked = True
                    break
                rows = room
            key = request.shape_key
            pieces.append(Piece(request, request.rows - request.waiting_rows, rows))
            self._remove(request, rows)
            room -= rows
            if not room:
                blocked = True
                break
        self._tidy()
        return pieces, blocked

    def take_due(self, now_ns: Nanoseconds) -> list[Request]:
        """Remove every request whose deadline is ``now_ns`` or earlier, the earliest first."""
        due = []
        while (request := self._first()) and request.deadline_at_ns <= now_ns:
            due.append(request)
            self._remove(request, request.waiting_rows)
        if due:
            self._tidy()
        return due

    def earliest_deadline_at_ns(self) -> Nanoseconds | None:
        """Return the deadline of the first request; ``None`` if nothing waits."""
        request = self._first()
        return request.deadline_at_ns if request else None

    def statistics(self) -> QueueStatistics:
        """Count what waits; looks at every request, so not for the hot path."""
        waiting = [request for _, _, request in self._entries if request.waiting_rows]
        return QueueStatistics(
            requests=self.requests,
            rows=self.rows,
            waiting_since_ns=min((request.arrived_at_ns for request in waiting), default=None),
            earliest_deadline_at_ns=self.earliest_deadline_at_ns(),
        )

    def _first(self) -> Request | None:
        while self._head < len(self._entries):
            request = self._entries[self._head][2]
            if request.waiting_rows:
                return request
            self._head += 1
        return None

    def _remove(self, request: Request, rows: int) -> None:
        request.waiting_rows -= rows
        self.rows -= rows
        if not request.waiting_rows:
            self.requests -= 1

    def _tidy(self) -> None:
        if len(self._entries) > 2 * self.requests + _SPARSE:
            self._entries = [entry for entry in self._entries if entry[2].waiting_rows]
            self._head = 0
