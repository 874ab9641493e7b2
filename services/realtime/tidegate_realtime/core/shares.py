"""Room for the other classes: how 16 : 4 : 1 holds for requests that may be refused.

A promise is kept whoever comes later, so places go to who comes first unless some are left. Whoever
is promised one leaves to each other class the rows that it is still owed and can use:

    left_j = min(expected_j, w_j · (N / Σw + v_i - v_j) - waiting_j), and at least 0

i is his class, and N are the rows of all batches up to and with his own; w are the shares of the
classes that send; v are the rows of a class that were run, by its share: virtual times, as in
start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). Rows are expected at the present rate
until his batch starts, and a standard deviation more; whoever stands by is there already. A class
that did not use its share can save up no more than its share of ``SAVED_BATCHES`` full batches.

No room is left for rows that do not come, so what a class does not use goes to the others by their
shares: weighted max-min fairness (Bertsekas and Gallager, "Data Networks", section 6.5.2), here
without knowing the capacity. Nor does a place stay empty: who is refused for the sake of others
stands by, and rides if it is left when the batch starts.

What that guarantees (``tests/property/test_shares.py`` holds it to that):

- Every class gets at least half of its max-min fair part of what all are answered, and mostly nine
  tenths. The rest is lost to the batch that runs, which nobody interrupts: who has just missed a
  large one is late in any case. Batches of ``Pace.calm_rows`` would lose nobody, and answer a tenth
  less in all, or a quarter where times vary by 10 %.
- Of a class with a small part of the load, 95 % are answered beside any amount of bulk.
- A class alone is not looked at: nothing is counted, and nothing is left.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Final

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.arrival_rate import ArrivalRate
from tidegate_realtime.core.commands import Batch
from tidegate_realtime.core.lanes import LATE, SHARES, Lanes
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request

SAVED_BATCHES: Final = 2
"""With one, bulk's share of a batch is less than a row."""
_RATES_VALID_NS: Final = 10 * NS_PER_MS
"""The finest bucket of an arrival rate."""
_NOBODY: Final = 0


class Shares:
    """What the classes have had, and what is still to come of each."""

    __slots__ = (
        "_lanes",
        "_pace",
        "_rates",
        "_rates_at_ns",
        "_rows_per_second",
        "_standing_by",
        "_virtual",
        "is_contested",
        "sole",
    )

    def __init__(self, pace: Pace, lanes: Lanes, standing_by: Sequence[int]) -> None:
        """Begin with no traffic.

        Args:
            pace: How large batches may be.
            lanes: What waits.
            standing_by: The rows of each class that stand by at present; whoever counts them
                changes it.
        """
        self._pace = pace
        self._lanes = lanes
        self._standing_by = standing_by
        self.is_contested = False
        """Whether several classes have sent within the last ten seconds."""
        self.sole = _NOBODY
        """The only class that has; nothing need be told of it."""
        self._rates = tuple(ArrivalRate() for _ in range(LATE))
        self._rates_at_ns = 0
        self._rows_per_second = [0.0] * LATE
        self._virtual = [0.0] * LATE

    def on_arrival(self, request: Request, now_ns: int) -> None:
        """Take note of a request that may be refused, before it is known whether it will be."""
        if request.priority == self.sole:
            return
        if self.sole == _NOBODY and not self.is_contested:
            self.sole = request.priority
            return
        self.sole = _NOBODY
        self.is_contested = True
        self._rates[request.priority - 1].on_arrival(request.rows, Nanoseconds(now_ns))
        if now_ns - self._rates_at_ns >= _RATES_VALID_NS:
            self._renew(Nanoseconds(now_ns))

    def on_start(self, batch: Batch) -> None:
        """Take note of what is run now."""
        if not self.is_contested:
            return
        virtual = self._virtual
        for piece in batch.pieces:
            if piece.request.sheddable:
                each = piece.request.priority - 1
                virtual[each] += piece.rows / SHARES[each]
        saved = SAVED_BATCHES * self._pace.cap_rows / sum(SHARES[:LATE])
        least = max(virtual) - saved
        self._virtual = [max(each, least) for each in virtual]

    def left_rows(self, request: Request, until_rows: int, start_ns: float) -> int:
        """Return how many rows a request must leave to the other classes.

        Args:
            request: It has just arrived.
            until_rows: N, the rows of all batches up to and with its own.
            start_ns: When its batch starts.
        """
        own = request.priority - 1
        active = sum(SHARES[j] for j in range(LATE) if self._rows_per_second[j])
        left = 0.0
        for j in range(LATE):
            if j != own and self._rows_per_second[j]:
                share = until_rows / active + self._virtual[own] - self._virtual[j]
                owed = SHARES[j] * share - self._lanes.rows_of(j + 1)
                coming = self._coming(j, request, start_ns) + self._standing_by[j]
                left += max(0.0, min(coming, owed))
        return round(left)

    def company_rows(self, request: Request, start_ns: float) -> int:
        """Return how many rows of its own class are expected before its batch starts."""
        return round(self._coming(request.priority - 1, request, start_ns))

    def _coming(self, each: int, request: Request, start_ns: float) -> float:
        wait_ns = max(0.0, start_ns - request.arrived_at_ns)
        mean = self._rows_per_second[each] * wait_ns / NS_PER_SECOND
        return mean + sqrt(mean)

    def _renew(self, now_ns: Nanoseconds) -> None:
        self._rates_at_ns = now_ns
        self._rows_per_second = [rate.rows_per_second(now_ns) for rate in self._rates]
        sending = [each for each, rows in enumerate(self._rows_per_second, 1) if rows]
        if len(sending) == 1:
            self.sole, self.is_contested = sending[0], False
