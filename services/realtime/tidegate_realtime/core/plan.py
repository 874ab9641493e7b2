"""The batches that dispatch would form from what waits, and when each of them would start.

Not a schedule: nothing is bound to a batch before an executor is free. It is what late binding
will do if nothing else arrives, so that a promise counts on the same rules that will be applied to
it. Every batch goes to the executor that is free first; the time of several batches in a row is
the sum of their means, and its variance the sum of theirs.

The two margins of a promise, z·√(Σs²) for the batches ahead and L - m for its own, are combined as
deviations of independent batches are: √(z²·Σs² + (L - m)²), times ``Pace.caution``. Their sum
would be a margin for both being slow at once; the root alone misses too much under overload, where
a place goes to whom the forecast happens to favour (simulated, 0.1438·b + 1.8874 ms, 50 ms, at 4
times the capacity: 1.7 % missed, and 0.7 % with the factor).
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import hypot, sqrt
from typing import Final, TypeAlias

from tidegate.units import Nanoseconds
from tidegate_realtime.core.deadline_queue import Entry
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request

_SQRT_HALF: Final = sqrt(0.5)
FOREVER: Final = 1 << 62
"""After every instant: the deadline of what may not be shed."""

Free: TypeAlias = tuple[int, float]
"""When an executor is expected to be free, and the variance of that instant."""


class Plan:
    """Batches in the order of their starts. The last one is open; it may be empty."""

    __slots__ = (
        "_free",
        "_full_by_ns",
        "_need_by_ns",
        "_room_rows",
        "_times",
        "ahead_rows",
        "at_ns",
        "batches",
        "deadline_ns",
        "model",
        "most_rows",
        "pace",
        "rows",
        "variance",
    )

    def __init__(self, pace: Pace, free: Sequence[Free], *, most_rows: int) -> None:
        """Begin with an empty batch.

        Args:
            pace: One that knows times.
            free: One entry per executor that can be counted on, at least one.
            most_rows: In a batch, at most ``pace.cap_rows``.
        """
        assert pace.model is not None
        self.pace = pace
        self.model = pace.model
        self._times = pace.known_times()
        self._free = later = sorted(free)
        self.at_ns, self.variance = later.pop(0)
        """When the open batch starts, and the variance of that."""
        self.rows = 0
        """In the open batch."""
        self.deadline_ns = FOREVER
        """The earliest in the open batch."""
        self.batches = 1
        self.ahead_rows = 0
        """In the batches before it."""
        self.most_rows = most_rows
        """In a batch."""
        # Of the open batch, and worked out when they are asked for: most requests are appended,
        # and this halves what they cost. The first two follow from its start, the third from its
        # deadline too.
        self._full_by_ns: float | None = None
        self._need_by_ns: float | None = None
        self._room_rows = 0

    def append(self, request: Request, strictness_ns: int) -> bool:
        """Promise a request, and put it behind everything else, if that is quickly decided.

        It is where the open batch has room for it and may become as large as the cap, or, if
        somebody is in it, as the load needs it.

        Args:
            request: Its deadline is the latest of all.
            strictness_ns: By how much earlier than its deadline it must be answered.

        Returns:
            Whether that was so; if not, nothing has changed.
        """
        pace, total = self.pace, self.rows + request.rows
        room_rows = self._room_rows or self.room_rows()
        if total > room_rows:
            return False
        strict_ns = request.deadline_at_ns - strictness_ns
        ends_by_ns = self._full_by_ns
        if ends_by_ns is None:
            self._full_by_ns = ends_by_ns = self.ends_by_ns(pace.cap_rows, self.start)
        if ends_by_ns < strict_ns:
            request.reserved_rows = pace.cap_rows
        elif self.rows and total <= pace.need_rows:
            ends_by_ns = self._need_by_ns
            if ends_by_ns is None:
                self._need_by_ns = ends_by_ns = self.ends_by_ns(pace.need_rows, self.start)
            if ends_by_ns >= strict_ns:
                return False
            request.reserved_rows = pace.need_rows
        else:
            return False
        request.predicted_at_ns = Nanoseconds(int(ends_by_ns))
        if self.rows:
            self.rows = total
        else:
            self._join(total, request.deadline_at_ns)
        return True

    @property
    def start(self) -> Free:
        """When the open batch starts."""
        return self.at_ns, self.variance

    @property
    def next_start(self) -> Free:
        """When the batch after the open one starts."""
        return self._free[0] if self._free else self._end()

    def ends_by_ns(self, rows: int, start: Free) -> float:
        """Return by when the answers of a batch are out, with the objective's probability.

        Args:
            rows: In the batch.
            start: When it starts.
        """
        at_ns, variance = start
        pace = self.pace
        mean_ns, spread_ns = self._times.get(rows) or pace.times(rows)
        margin_ns = hypot(pace.z * sqrt(variance), spread_ns)
        return at_ns + pace.overhead_ns + mean_ns + pace.caution * margin_ns

    def close(self) -> None:
        """Let the open batch be complete, unless it is empty, and open the next one."""
        if not self.rows:
            return
        end = self._end()
        self.ahead_rows += self.rows
        if self._free:
            self._free.append(end)
            self._free.sort()
            end = self._free.pop(0)
        self.at_ns, self.variance = end
        self.rows = 0
        self.deadline_ns = FOREVER
        self.batches += 1
        self._full_by_ns = self._need_by_ns = None
        self._room_rows = 0

    def has_room(self, rows: int, deadline_ns: int) -> bool:
        """Whether dispatch would add rows to the open batch.

        It would if the cap allows it and nobody in the batch becomes late by it on average.
        """
        if not self.rows:
            return True
        total = self.rows + rows
        first_ns = min(self.deadline_ns, deadline_ns)
        return total <= self.most_rows and self._would_end_ns(total) < first_ns

    def add(self, rows: int, deadline_ns: int) -> None:
        """Put rows behind everything else; more rows than a batch may have fill several."""
        most_rows = self.most_rows
        while rows > most_rows:
            if self.rows >= most_rows:
                self.close()
            taken = min(rows, most_rows - self.rows)
            self._join(taken, deadline_ns)
            rows -= taken
        if rows and not self.has_room(rows, deadline_ns):
            self.close()
        self._join(rows, deadline_ns)

    def fill(self, entries: Sequence[Entry]) -> Iterator[int]:
        """Put single rows behind everything else, a batch at a time.

        Args:
            entries: In the order in which the rows will be taken.

        Yields:
            The place in ``entries`` of the first row of each batch, while that batch is open.
        """
        done, count, most_rows = 0, len(entries), self.most_rows
        while done < count:
            self.close()
            first_ns = entries[done][0]
            rows = min(most_rows, count - done)
            if self._would_end_ns(rows) >= first_ns:
                rows = self._largest(rows, first_ns)
            self._join(rows, first_ns)
            yield done
            done += rows

    def promise_rows(self, least_rows: int, start: Free, deadline_ns: int) -> int:
        """Return the largest size that its batch may reach before a request is late; or 0.

        Args:
            least_rows: The size that it must be able to reach; 0: there is no place.
            start: When the batch starts.
            deadline_ns: Before when it must have ended, with the objective's probability.
        """
        pace, times = self.pace, self._times
        if least_rows and self.ends_by_ns(pace.cap_rows, start) < deadline_ns:
            return pace.cap_rows
        if not 0 < least_rows < pace.cap_rows or self.ends_by_ns(least_rows, start) >= deadline_ns:
            return 0
        # The end need not rise with the size, but a bound below it does: hypot(a, s) is at least
        # (a + s)/√2, and a share of L - m, up to all of it, added to m rises as m and L do. So no
        # size is in time from the first one on of which the bound is not; a nanosecond is more
        # than what floats round.
        share, sizes = min(1.0, pace.caution * _SQRT_HALF), pace.sizes
        ahead_ns = pace.overhead_ns + share * pace.z * sqrt(start[1])

        def bound_ns(size: int) -> float:
            mean_ns, spread_ns = times.get(size) or pace.times(size)
            return mean_ns + share * spread_ns

        place = bisect_left(sizes, deadline_ns - start[0] - ahead_ns + 1, key=bound_ns)
        while place and sizes[place - 1] > least_rows:
            place -= 1
            if self.ends_by_ns(sizes[place], start) < deadline_ns:
                return sizes[place]
        return least_rows

    def room_rows(self) -> int:
        """Return how many rows the open batch can have before its first one is late."""
        rows = self.most_rows
        if self.rows and self._would_end_ns(rows) >= self.deadline_ns:
            rows = self._largest(rows, self.deadline_ns)
        self._room_rows = rows
        return rows

    def _end(self) -> Free:
        model, rows = self.model, self.rows
        return self.at_ns + model.mean_ns(rows), self.variance + model.std_ns(rows) ** 2

    def _join(self, rows: int, deadline_ns: int) -> None:
        self.rows += rows
        self.deadline_ns = min(self.deadline_ns, deadline_ns)
        self._room_rows = 0

    def _mean_ns(self, rows: int) -> int:
        return (self._times.get(rows) or self.pace.times(rows))[0]

    def _would_end_ns(self, rows: int) -> int:
        mean_ns = (self._times.get(rows) or self.pace.times(rows))[0]
        return self.at_ns + self.pace.overhead_ns + mean_ns

    def _largest(self, rows: int, first_ns: int) -> int:
        """Return the largest size below some rows with which the open batch ends in time."""
        sizes, room_ns = self.pace.sizes, first_ns - self.at_ns - self.pace.overhead_ns
        smaller = bisect_left(sizes, rows)
        in_time = bisect_left(sizes, room_ns, hi=smaller, key=self._mean_ns)
        if in_time:
            return sizes[in_time - 1]
        return rows  # its first row will be dropped, and the others will fill the batch


def batches_of(requests: Iterable[Request], cap_rows: int) -> list[list[Request]]:
    """Divide requests of any shapes into batches, in the order in which these would start.

    Args:
        requests: In the order in which they will be taken.
        cap_rows: A request with more rows has a batch of its own here, which stands for several.
    """
    batches: list[list[Request]] = []
    open_by_key: dict[Hashable, tuple[list[Request], int]] = {}
    for request in requests:
        batch, room = open_by_key.get(request.shape_key, (None, 0))
        if batch is None or request.waiting_rows > room:
            batch, room = [], cap_rows
            batches.append(batch)
        batch.append(request)
        open_by_key[request.shape_key] = (batch, room - request.waiting_rows)
    return batches
