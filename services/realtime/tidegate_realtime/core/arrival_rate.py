"""How many rows arrive: now, over the last second, and at worst."""

from dataclasses import dataclass
from typing import Final

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds

BUCKETS: Final = 10
"""Per window: its length is kept to a tenth."""
ENOUGH_ROWS: Final = 30
"""In a window whose rate is to mean something: 30 of a Poisson load tell it to within a fifth. A
lone row in 0.1 s reads as ten a second, which is the whole capacity of a slow model."""
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
    """Looks at a running total of rows: what it was when each of the last buckets began."""

    __slots__ = ("_bucket_ns", "_most_rows", "_newest", "_totals")

    def __init__(self, length_ns: int) -> None:
        self._bucket_ns = length_ns // BUCKETS
        self._totals = [0] * BUCKETS
        self._newest = 0
        self._most_rows = 0

    def rows(self, total: int) -> int:
        return total - self._totals[(self._newest + 1) % BUCKETS]  # of the oldest bucket

    def most_rows(self, total: int) -> int:
        return max(self._most_rows, self.rows(total))

    def advance(self, total: int, now_ns: Nanoseconds) -> bool:
        """Begin the bucket of the present, and say whether it is a new one."""
        newest = now_ns // self._bucket_ns
        if newest <= self._newest:
            return False
        self._most_rows = self.most_rows(total)  # within a bucket the window only fills
        for bucket in range(max(self._newest, newest - BUCKETS) + 1, newest + 1):
            self._totals[bucket % BUCKETS] = total
        self._newest = newest
        return True

    def covered_ns(self, now_ns: Nanoseconds) -> int:
        return (BUCKETS - 1) * self._bucket_ns + now_ns % self._bucket_ns

    def per_second(self, total: int, now_ns: Nanoseconds) -> float:
        return self.rows(total) * NS_PER_SECOND / self.covered_ns(now_ns)


class ArrivalRate:
    """Counts rows in windows of 0.1, 1 and 10 s; an arrival costs O(1), whatever the load."""

    __slots__ = ("_second", "_slot", "_ten_seconds", "_tenth", "_total")

    def __init__(self) -> None:
        self._tenth = _Window(NS_PER_SECOND // 10)
        self._second = _Window(NS_PER_SECOND)
        self._ten_seconds = _Window(10 * NS_PER_SECOND)
        self._slot = 0
        self._total = 0

    def on_arrival(self, rows: int, now_ns: Nanoseconds) -> None:
        """Count the rows of a request, admitted or not."""
        if now_ns // _SLOT_NS != self._slot:
            self._advance(now_ns)
        self._total += rows

    def rows_per_second(self, now_ns: Nanoseconds) -> float:
        """Return the present load: the larger of the last 0.1 s and the last second.

        The short window sees a burst at once; the long one does not forget it between two
        requests. A window with fewer than ``ENOUGH_ROWS`` says nothing but that it had no more:
        then the last ten seconds count, up to that many rows in the second. So a step to 400
        rows/s or more is seen within 0.1 s, and one to 30 within a second.
        """
        if now_ns // _SLOT_NS != self._slot:
            self._advance(now_ns)
        total, tenth, second = self._total, self._tenth, self._second
        if second.rows(total) < ENOUGH_ROWS:
            at_most = ENOUGH_ROWS * NS_PER_SECOND / second.covered_ns(now_ns)
            return min(at_most, self._ten_seconds.per_second(total, now_ns))
        load = second.per_second(total, now_ns)
        if tenth.rows(total) < ENOUGH_ROWS:
            return load
        return max(load, tenth.per_second(total, now_ns))

    def smooth_rows_per_second(self, now_ns: Nanoseconds) -> float:
        """Return the load of the last 10 s, for people and for scaling."""
        self._advance(now_ns)
        return self._ten_seconds.per_second(self._total, now_ns)

    def envelope(self, now_ns: Nanoseconds) -> Envelope:
        """Return the most that had to be coped with at once so far."""
        self._advance(now_ns)
        return Envelope(
            tenth_rows=self._tenth.most_rows(self._total),
            second_rows=self._second.most_rows(self._total),
            ten_seconds_rows=self._ten_seconds.most_rows(self._total),
        )

    def _advance(self, now_ns: Nanoseconds) -> None:
        """Turn the windows; the buckets of a longer one begin with one of a shorter one."""
        total, self._slot = self._total, now_ns // _SLOT_NS
        if self._tenth.advance(total, now_ns) and self._second.advance(total, now_ns):
            self._ten_seconds.advance(total, now_ns)
