"""The batches that dispatch would form from what waits, and when each of them would start.

Not a schedule: nothing is bound to a batch before an executor is free. It is what late binding
will do if nothing else arrives, so that a promise counts on the same rules that will be applied to
it. Every batch goes to the executor that is free first; the time of several batches in a row is
the sum of their means, and its variance the sum of theirs.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import sqrt
from typing import Final, TypeAlias

from tidegate_realtime.core.deadline_queue import Entry
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request

FOREVER: Final = 1 << 62
"""After every instant: the deadline of what may not be shed."""

Free: TypeAlias = tuple[int, float]
"""When an executor is expected to be free, and the variance of that instant."""


class Plan:
    """Batches in the order of their starts. The last one is open; it may be empty."""

    __slots__ = (
        "_base_ns",
        "_free",
        "_room_rows",
        "at_ns",
        "batches",
        "deadline_ns",
        "model",
        "pace",
        "rows",
        "variance",
    )

    def __init__(self, pace: Pace, free: Sequence[Free]) -> None:
        """Begin with an empty batch.

        Args:
            pace: One that knows times.
            free: One entry per executor that can be counted on, at least one.
        """
        assert pace.model is not None
        self.pace = pace
        self.model = pace.model
        self._free = sorted(free)
        self.at_ns, self.variance = self._free.pop(0)
        """When the open batch starts, and the variance of that."""
        self.rows = 0
        """In the open batch."""
        self.deadline_ns = FOREVER
        """The earliest in the open batch."""
        self.batches = 1
        # Of the open batch, and worked out when they are asked for: most requests are appended,
        # and this halves what they cost.
        self._room_rows = 0
        self._base_ns: float | None = None

    def append(self, request: Request, strictness_ns: int) -> bool:
        """Promise a request, and put it behind everything else, if that is quickly decided.

        It is where the open batch has room for it and may become as large as the cap.

        Args:
            request: Its deadline is the latest of all.
            strictness_ns: By how much earlier than its deadline it must be answered.

        Returns:
            Whether that was so; if not, nothing has changed.
        """
        total = self.rows + request.rows
        if self._base_ns is None:
            self._base_ns = self.base_ns()
            self._room_rows = self._room()
        if not self.rows or total > self._room_rows:
            return False
        cap_rows = self.pace.cap_rows
        if self._base_ns + self.model.tail_ns(cap_rows) >= request.deadline_at_ns - strictness_ns:
            return False
        request.reserved_rows = cap_rows
        self.rows = total
        return True

    def base_ns(self) -> float:
        """Return by when the open batch has started, with the margin for those ahead, plus o."""
        pace = self.pace
        return self.at_ns + pace.z * sqrt(self.variance) + pace.overhead_ns

    def next_base_ns(self) -> float:
        """Return the same for the batch after the open one."""
        at_ns, variance = self._free[0] if self._free else self._end()
        pace = self.pace
        return at_ns + pace.z * sqrt(variance) + pace.overhead_ns

    def close(self) -> None:
        """Let the open batch be complete, unless it is empty, and open the next one."""
        if not self.rows:
            return
        end = self._end()
        if self._free:
            self._free.append(end)
            self._free.sort()
            end = self._free.pop(0)
        self.at_ns, self.variance = end
        self.rows = 0
        self.deadline_ns = FOREVER
        self.batches += 1
        self._base_ns = None

    def has_room(self, rows: int, deadline_ns: int) -> bool:
        """Whether dispatch would add rows to the open batch.

        It would if the cap allows it and nobody in the batch becomes late by it on average.
        """
        if not self.rows:
            return True
        total = self.rows + rows
        first_ns = min(self.deadline_ns, deadline_ns)
        return total <= self.pace.cap_rows and self._would_end_ns(total) < first_ns

    def add(self, rows: int, deadline_ns: int) -> None:
        """Put rows behind everything else; more rows than the cap fill batches up."""
        cap_rows = self.pace.cap_rows
        while rows > cap_rows:
            if self.rows == cap_rows:
                self.close()
            taken = min(rows, cap_rows - self.rows)
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
        done, count, cap_rows = 0, len(entries), self.pace.cap_rows
        while done < count:
            self.close()
            first_ns = entries[done][0]
            rows = min(cap_rows, count - done)
            if self._would_end_ns(rows) >= first_ns:
                rows = self._largest(rows, first_ns)
            self._join(rows, first_ns)
            yield done
            done += rows

    def promise_rows(self, place: int, need_rows: int, base_ns: float, deadline_ns: int) -> int:
        """Return the largest size that its batch may reach before a request is late; or 0.

        Args:
            place: Rows in the batch up to the last of the request.
            need_rows: Company that it must leave room for.
            base_ns: By when the batch has started, plus the overhead.
            deadline_ns: Before when it must have ended, with the objective's probability.
        """
        tail_ns, cap_rows = self.model.tail_ns, self.pace.cap_rows
        left_ns = deadline_ns - base_ns
        if tail_ns(cap_rows) < left_ns:
            return cap_rows
        least = place if place >= need_rows else need_rows
        if least >= cap_rows or tail_ns(least) >= left_ns:
            return 0
        return max(
            least,
            next((size for size in reversed(self.pace.sizes) if tail_ns(size) < left_ns), 0),
        )

    def _end(self) -> Free:
        model, rows = self.model, self.rows
        return self.at_ns + model.mean_ns(rows), self.variance + model.std_ns(rows) ** 2

    def _join(self, rows: int, deadline_ns: int) -> None:
        self.rows += rows
        self.deadline_ns = min(self.deadline_ns, deadline_ns)
        self._base_ns = None

    def _room(self) -> int:
        """Return how many rows the open batch can have before its first one is late."""
        cap_rows = self.pace.cap_rows
        if self._would_end_ns(cap_rows) < self.deadline_ns:
            return cap_rows
        return self._largest(cap_rows, self.deadline_ns) if self.rows else cap_rows

    def _would_end_ns(self, rows: int) -> int:
        return self.at_ns + self.pace.overhead_ns + self.model.mean_ns(rows)

    def _largest(self, rows: int, first_ns: int) -> int:
        for size in reversed(self.pace.sizes):
            if size < rows and self._would_end_ns(size) < first_ns:
                return size
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
