"""Who is promised no place and not refused yet: he rides where one is left.

A promise must hold whoever comes later, so admission counts on the company that usually comes and
refuses places that then stay empty. Most of what would be refused so is lost anyway and is told at
once. But while it still depends on how many others come before the next batch, a request stands by:
it rides if, when the batch starts, there is room and everybody in it is in time; and it is refused
at the first moment at which it can no longer be, and when half of its time has passed at the
latest: whoever is refused then can still go elsewhere. Nobody who was promised a place waits for
it, and what rides is promised at that moment. A policy that takes everybody and gives up what turns
out late has the same hindsight, but its callers hear of it when their deadline has passed.

(Simulated, one executor, 1.053·b + 5.072 ms, 10 % noise, 25 ms: at 0.9 times the capacity 4 % of
the requests were refused that a probe found in time, and none with standby.)
"""

from collections.abc import Sequence

from tidegate.units import Nanoseconds
from tidegate_realtime.core.admission import Refusal
from tidegate_realtime.core.commands import Piece
from tidegate_realtime.core.lanes import LATE
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request


class Standby:
    """At most as many rows as one batch can hold.

    Of the lowest class, who has least time left makes room.
    """

    __slots__ = ("_held", "_pace", "byte_count", "rows", "rows_by_class")

    def __init__(self, pace: Pace) -> None:
        """Let nobody stand by yet; ``pace`` says how long batches take."""
        self._pace = pace
        self._held: dict[Request, Refusal] = {}
        self.rows = 0
        """Of all who stand by."""
        self.rows_by_class = [0] * LATE
        """The same of each class."""
        self.byte_count = 0
        """Bytes of their inputs."""

    def __contains__(self, request: Request) -> bool:
        """Whether a request stands by."""
        return request in self._held

    def hold(self, request: Request, refusal: Refusal) -> list[tuple[Request, Refusal]]:
        """Let a request stand by; return whom there is no room for any more.

        Args:
            request: It was refused just now, and ``Refusal.is_open``.
            refusal: What it is told if it finds no place.
        """
        self._held[request] = refusal
        self._count(request, request.rows, request.size_bytes)
        gone = []
        while self.rows > self._pace.cap_rows:
            gone.append(self._pop(min(self._held, key=_worth)))
        return gone

    def discard(self, request: Request) -> None:
        """Forget a request; without effect if it does not stand by."""
        if request in self._held:
            self._pop(request)

    def take_lost(self, start_ns: int) -> list[tuple[Request, Refusal]]:
        """Remove whoever would be late on average in a batch of his own that starts then.

        And whoever would not be told before half of his time has passed.
        """
        model, begin_ns = self._pace.model, start_ns + self._pace.overhead_ns
        assert model is not None
        lost = [
            request
            for request in self._held
            if begin_ns + model.mean_ns(request.rows) >= request.deadline_at_ns
            or start_ns >= request.half_time_at_ns
        ]
        return [self._pop(request) for request in lost]

    def take_crowded_out(self, rows: int, start_ns: int) -> list[tuple[Request, Refusal]]:
        """Remove whoever would be late on average behind all who ride before him.

        Args:
            rows: Promised places in the next batch.
            start_ns: When it starts, on average.
        """
        model, begin_ns, gone = self._pace.model, start_ns + self._pace.overhead_ns, []
        assert model is not None
        while self._held:
            last = max(self._held, key=_turn)
            ahead_rows = max(last.rows, min(rows + self.rows, self._pace.cap_rows))
            if begin_ns + model.mean_ns(ahead_rows) < last.deadline_at_ns:
                break
            gone.append(self._pop(last))
        return gone

    def told_by_ns(self) -> int | None:
        """Return by when the first of all who stand by must be told; ``None`` if nobody does."""
        margin_ns = self._pace.margin_ns
        return min(
            (min(each.half_time_at_ns, each.deadline_at_ns - margin_ns) for each in self._held),
            default=None,
        )

    def fill(self, pieces: Sequence[Piece], now_ns: Nanoseconds) -> list[Piece]:
        """Give the places left in a batch that starts now to those who stand by.

        The higher class first, then who has come last: he delays the others least. Everybody in
        the batch is in time by what may be promised, not on average.

        Args:
            pieces: Who is in the batch; may be empty.
            now_ns: When it starts.

        Returns:
            Whole requests, by deadline; they do not stand by any more.
        """
        rows = sum([piece.rows for piece in pieces])
        until_ns = min([piece.request.deadline_at_ns for piece in pieces], default=None)
        key = pieces[0].request.shape_key if pieces else None
        taken: list[Request] = []
        for request in sorted(self._held, key=_turn):
            if (pieces or taken) and request.shape_key != key:
                continue
            most_ns = request.deadline_at_ns
            most_ns = most_ns if until_ns is None else min(until_ns, most_ns)
            if not self._is_in_time(rows + request.rows, most_ns, now_ns):
                continue
            key, until_ns = request.shape_key, most_ns
            rows += request.rows
            taken.append(request)
        for request in taken:
            self._pop(request)
        return [Piece(request, 0, request.rows) for request in sorted(taken, key=_deadline)]

    def _is_in_time(self, rows: int, until_ns: int, now_ns: int) -> bool:
        pace, model = self._pace, self._pace.model
        if model is None or rows > pace.cap_rows:
            return False
        return now_ns + pace.overhead_ns + model.tail_ns(rows) < until_ns

    def _pop(self, request: Request) -> tuple[Request, Refusal]:
        refusal = self._held.pop(request)
        self._count(request, -request.rows, -request.size_bytes)
        return request, refusal

    def _count(self, request: Request, rows: int, size_bytes: int) -> None:
        self.rows += rows
        self.rows_by_class[request.priority - 1] += rows
        self.byte_count += size_bytes


def _deadline(request: Request) -> Nanoseconds:
    return request.deadline_at_ns


def _worth(request: Request) -> tuple[int, int]:
    return -request.priority, request.deadline_at_ns


def _turn(request: Request) -> tuple[int, int]:
    return request.priority, -request.deadline_at_ns
