"""How many rows arrive: now, over the last second, and at worst."""

from dataclasses import dataclass
from typing import Final

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds

BUCKETS: Final = 10
"""Per window: its length is kept to a tenth, and an arrival costs one addition."""
_SLOT_NS: Final = 10 * NS_PER_MS
"""The finest bucket. Within it an arrival only adds to a counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Most rows that ever arrived within a window of each length, since the start.

    Found at every tenth of the window: a burst may have had up to a tenth more.
    """

    tenth_rows: int
    """Within 0.1 s."""
    second_rows: int
    """Within 1 s."""
    ten_seconds_rows: int
    """Within 10 s."""


class _Window:
    """Rows of the last ``BUCKETS`` buckets, the newest of which is being filled."""

    __slots__ = ("_bucket_ns", "_buckets", "_newest", "most_rows", "rows")

    def __init__(self, length_ns: int) -> None:
        self._bucket_ns = length_ns // BUCKETS
        self._buckets = [0] * BUCKETS
        self._newest = 0
        self.rows = 0
        self.most_rows = 0

    def add(self, rows: int) -> None:
        self._buckets[self._newest % BUCKETS] += rows
        self.rows += rows
        self.most_rows = max(self.most_rows, self.rows)

    def advance(self, now_ns: Nanoseconds) -> None:
        newest = now_ns // self._bucket_ns
        for bucket in range(self._newest + 1, min(newest, self._newest + BUCKETS) + 1):
            self.rows -= self._buckets[bucket % BUCKETS]
            self._buckets[bucket % BUCKETS] = 0
        self._newest = max(self._newest, newest)

    def per_second(self, now_ns: Nanoseconds) -> float:
        covered_ns = (BUCKETS - 1) * self._bucket_ns + now_ns % self._bucket_ns
        return self.rows * NS_PER_SECOND / covered_ns


class ArrivalRate:
    """Counts rows in windows of 0.1, 1 and 10 s; an arrival costs O(1), whatever the load."""

    __slots__ = ("_fresh_rows", "_second", "_slot", "_ten_seconds", "_tenth")

    def __init__(self) -> None:
        self._tenth = _Window(NS_PER_SECOND // 10)
        self._second = _Window(NS_PER_SECOND)
        self._ten_seconds = _Window(10 * NS_PER_SECOND)
        self._slot = 0
        self._fresh_rows = 0  # arrived in this slot, and not in any window yet

    def on_arrival(self, rows: int, now_ns: Nanoseconds) -> None:
        """Count the rows of a request, admitted or not."""
        if now_ns // _SLOT_NS != self._slot:
            self._advance(now_ns)
        self._fresh_rows += rows

    def rows_per_second(self, now_ns: Nanoseconds) -> float:
        """Return the present load: the larger of the last 0.1 s and the last second.

        The short window sees a burst at once; the long one does not forget it between two
        requests.
        """
        self._advance(now_ns)
        return max(self._tenth.per_second(now_ns), self._second.per_second(now_ns))

    def smooth_rows_per_second(self, now_ns: Nanoseconds) -> float:
        """Return the load of the last 10 s, for people and for scaling."""
        self._advance(now_ns)
        return self._ten_seconds.per_second(now_ns)

    def envelope(self, now_ns: Nanoseconds) -> Envelope:
        """Return the most that had to be coped with at once so far."""
        self._advance(now_ns)
        return Envelope(
            tenth_rows=self._tenth.most_rows,
            second_rows=self._second.most_rows,
            ten_seconds_rows=self._ten_seconds.most_rows,
        )

    def _advance(self, now_ns: Nanoseconds) -> None:
        slot = now_ns // _SLOT_NS
        for window in (self._tenth, self._second, self._ten_seconds):
            if self._fresh_rows:
                window.add(self._fresh_rows)  # while the window still stands where they arrived
            if slot != self._slot:
                window.advance(now_ns)
        self._fresh_rows = 0
        self._slot = slot
