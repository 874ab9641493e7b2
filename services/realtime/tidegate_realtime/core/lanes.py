"""What waits, by class: earliest deadline first inside a class, shares between the classes.

Highest, normal and bulk get 16 : 4 : 1 rows by deficit round robin (Shreedhar and Varghese,
"Efficient fair queueing using deficit round robin", SIGCOMM 1995), and nothing else ages: nobody
starves, and the wait of a class can be foretold. A fourth lane holds what is late and may not be
shed; it shares like bulk, so that a backlog after an outage cannot push interactive traffic aside.
Of best-effort callers among these, who has come last goes first: under overload all of them wait
too long otherwise, and those who have waited longest are those who have given up.

A class that is alone has everything: shares are about who goes first, not about limits. Who is
promised a place at all is for ``core.shares``.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Piece
from tidegate_realtime.core.deadline_queue import ANY_SHAPE, DeadlineQueue
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import QueueStatistics

SHARES: Final = (16, 4, 1, 1)
"""Rows a round: classes 1, 2 and 3, and the late ones."""
LATE: Final = 3


class Lanes:
    """One queue per class, and whose turn it is."""

    __slots__ = ("_credit", "_lanes", "_patient_rows", "_turn", "byte_count", "rows")

    def __init__(self) -> None:
        self._lanes = tuple(DeadlineQueue() for _ in SHARES)
        self._credit = [SHARES[0], 0, 0, 0]
        self._turn = 0
        self.rows = 0
        """Rows waiting in all classes."""
        self._patient_rows = 0
        self.byte_count = 0
        """Bytes of the inputs of every request with rows waiting."""

    def push(self, request: Request) -> None:
        """Queue all rows of a request in its class."""
        rows = request.rows
        self._lanes[request.priority - 1].push(request, rows)
        self.rows += rows  # as ``_count`` does, without a call
        self.byte_count += request.size_bytes
        if request.is_patient:
            self._patient_rows += rows

    def push_late(self, request: Request, rows: int) -> None:
        """Queue the last ``rows`` of a request that nothing hurries any more."""
        request.is_late = True
        newest_ns = Nanoseconds(-request.arrived_at_ns) if request.is_newest_first else None
        self._lanes[LATE].push(request, rows, rank_ns=newest_ns)
        self._count(request, rows, request.size_bytes)

    def push_unsheddable(self, request: Request, hopeless_ns: int) -> None:
        """Queue a request that nobody refuses; with the late ones, if it cannot be in time.

        A probe stands where its request would have been, if that is the last place of all: in a
        class of its own it would overtake, and always be in time. Before others it would harm
        them, and it goes to the late ones.

        Args:
            request: Not sheddable.
            hopeless_ns: Whoever has a deadline until then cannot be answered in time.
        """
        request.is_patient = True
        overtakes = request.is_probe and not self.lane_of(request).goes_last(request)
        if overtakes or request.deadline_at_ns <= hopeless_ns:
            self.push_late(request, request.rows)
        else:
            self.push(request)

    def discard(self, request: Request) -> None:
        """Remove what waits of a request; without effect if nothing does."""
        rows = request.waiting_rows
        if rows:
            self._queue_of(request).discard(request)
            self._count(request, -rows, -request.size_bytes)

    def withdraw(self, request: Request) -> None:
        """Undo the last ``push``, as if it had not been."""
        self._count(request, -request.waiting_rows, -request.size_bytes)
        self.lane_of(request).withdraw(request)

    def limit_rows(self, pace: Pace, coming: Request | None = None) -> int:
        """Return the most rows that the next batch may have.

        Beyond ``Pace.calm_rows`` only as many as there are that cannot wait for the one after it.

        Args:
            pace: How large batches may be.
            coming: A request that is not queued yet, and counts as if it were.
        """
        rows, patient_rows = self.rows, self._patient_rows
        if coming is not None:
            rows += coming.rows
            patient_rows += coming.rows if coming.is_patient else 0
        if not patient_rows:
            return pace.cap_rows
        first = next(self.in_order(), coming)
        assert first is not None
        least_rows = (first.waiting_rows or first.rows) if first.rows <= pace.cap_rows else 1
        hurried_rows = min(pace.cap_rows, rows - patient_rows)
        return max(pace.calm_rows, hurried_rows, least_rows)

    def is_first_patient(self, request: Request) -> bool:
        """Whether batches become smaller because a request is queued."""
        return request.is_patient and not self._patient_rows

    def rows_of(self, priority: int) -> int:
        """Return the rows of a class that wait and are not late."""
        return self._lanes[priority - 1].rows

    def sole(self) -> DeadlineQueue | None:
        """Return the only lane with rows; ``None`` if there are none or several."""
        rows = self.rows
        for lane in self._lanes:
            if lane.rows:
                return lane if lane.rows == rows else None
        return None

    def lane_of(self, request: Request) -> DeadlineQueue:
        """Return where a request that arrives would queue."""
        return self._lanes[request.priority - 1]

    def take(self, limit_rows: int, whole_rows: int) -> tuple[list[Piece], bool]:
        """Remove the rows of the next batch, as ``DeadlineQueue.take`` does, in turns.

        Returns:
            Pieces by deadline, and whether lack of room ended the batch.
        """
        sole = self.sole()
        if sole is not None:
            pieces, blocked = sole.take(limit_rows, whole_rows)
            if sole is self._lanes[LATE]:
                pieces.sort(key=_deadline)
        else:
            pieces, blocked = self._take_in_turns(limit_rows, whole_rows)
            pieces = sorted(_joined(pieces), key=_deadline)
        for piece in pieces:
            request, rows = piece.request, piece.rows
            self.rows -= rows  # as ``_count`` does, without a call
            if request.is_patient:
                self._patient_rows -= rows
            if not request.waiting_rows:
                self.byte_count -= request.size_bytes
        return pieces, blocked

    def take_due(self, until_ns: Nanoseconds) -> list[tuple[Request, int]]:
        """Remove every request with a deadline until then, and tell how many rows it had left.

        What is late already and may not be shed is not due again.
        """
        due = []
        for lane in self._lanes[:LATE]:
            if lane.rows:
                due += lane.take_due(until_ns)
        for request, rows in due:
            self._count(request, -rows, -request.size_bytes)
        return due

    def earliest_deadline_at_ns(self) -> Nanoseconds | None:
        """Return the earliest deadline of what is not late; ``None`` if there is nothing."""
        earliest_ns = None
        for lane in self._lanes[:LATE]:
            if lane.rows:
                at_ns = lane.earliest_deadline_at_ns()
                if earliest_ns is None or (at_ns is not None and at_ns < earliest_ns):
                    earliest_ns = at_ns
        return earliest_ns

    def rows_until(self, at_ns: int) -> int:
        """Count the rows that are not late and have a deadline until then."""
        return sum(lane.rows_until(at_ns) for lane in self._lanes[:LATE])

    def in_order(self) -> Iterator[Request]:
        """Go through what waits in the order in which it will be taken, shapes aside."""
        sole = self.sole()
        if sole is not None:
            yield from sole.in_order()
            return
        lanes = [deque(lane.in_order()) for lane in self._lanes]
        credit, turn = self._credit.copy(), self._turn
        while any(lanes):
            lane = lanes[turn]
            while lane and (lane[0].waiting_rows <= credit[turn]):
                request = lane.popleft()
                credit[turn] -= request.waiting_rows
                yield request
            if not lane:
                credit[turn] = 0
            turn = (turn + 1) % len(SHARES)
            if lanes[turn]:
                credit[turn] += SHARES[turn]

    def statistics(self) -> QueueStatistics:
        """Count what waits; looks at every request, so not for the hot path."""
        each = [lane.statistics() for lane in self._lanes]
        since = [one.waiting_since_ns for one in each if one.waiting_since_ns is not None]
        first = [
            one.earliest_deadline_at_ns for one in each if one.earliest_deadline_at_ns is not None
        ]
        return QueueStatistics(
            requests=sum(one.requests for one in each),
            rows=self.rows,
            rows_by_class=tuple(one.rows for one in each),
            waiting_since_by_class=tuple(one.waiting_since_ns for one in each),
            waiting_since_ns=min(since, default=None),
            earliest_deadline_at_ns=min(first, default=None),
        )

    def _count(self, request: Request, rows: int, size_bytes: int) -> None:
        self.rows += rows
        self.byte_count += size_bytes
        if request.is_patient:
            self._patient_rows += rows

    def _queue_of(self, request: Request) -> DeadlineQueue:
        return self._lanes[LATE if request.is_late else request.priority - 1]

    def _take_in_turns(self, limit_rows: int, whole_rows: int) -> tuple[list[Piece], bool]:
        pieces: list[Piece] = []
        room, passed = limit_rows, 0
        while room and passed < len(SHARES):
            lane, credit = self._lanes[self._turn], self._credit[self._turn]
            key = pieces[0].request.shape_key if pieces else ANY_SHAPE
            least = lane.least_rows(whole_rows, key)
            if 0 < least <= min(room, credit):
                taken, _ = lane.take(min(room, credit), whole_rows, key)
                rows = sum(piece.rows for piece in taken)
                self._credit[self._turn] -= rows
                room -= rows
                pieces += taken
                passed = 0
                continue
            if least > room:  # and nobody overtakes it
                return pieces, True
            passed = 0 if room >= least > credit else passed + 1
            self._next_turn(whole_rows)
        return pieces, not room

    def _next_turn(self, most: int) -> None:
        if not self._lanes[self._turn].rows:
            self._credit[self._turn] = 0
        self._turn = (self._turn + 1) % len(SHARES)
        if self._lanes[self._turn].rows:
            share = SHARES[self._turn]
            self._credit[self._turn] = min(self._credit[self._turn] + share, share + most)


def _deadline(piece: Piece) -> Nanoseconds:
    return piece.request.deadline_at_ns


def _joined(pieces: list[Piece]) -> Iterable[Piece]:
    """Make one piece of those that belong to one request: turns have cut it, not the cap."""
    by_request: dict[Request, Piece] = {}
    for piece in pieces:
        first = by_request.setdefault(piece.request, piece)
        if first is not piece:
            first.rows += piece.rows
    return by_request.values()
