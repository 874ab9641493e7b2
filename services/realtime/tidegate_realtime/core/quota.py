"""How much one tenant may ask for: a token bucket that knows a single instant.

The generic cell rate algorithm (ITU-T I.371, Annex A). Each row costs 1 / rate seconds, and what
was taken is paid for until some instant, which may lie as far ahead as ``burst_rows`` cost. A
request is let through while one row is left, whatever it has: how many, nobody knows before its
body is read. Once it is known all of it is taken, in advance if need be, unless others have used up
meanwhile what there was; whoever comes next waits for it. So the rate is kept on average, a request
of any size is let through at some time, and nothing has to be put back.

What is owed are rows: under another rate as many are owed, and are paid for at that one.
"""

from math import ceil
from typing import Protocol

from tidegate.units import NS_PER_SECOND, Nanoseconds


class Quota(Protocol):
    """What a tenant may ask for."""

    @property
    def rows_per_second(self) -> float:
        """On average, 0.001 to 1,000,000: a row costs so many ns that rounding is no matter."""
        ...

    @property
    def burst_rows(self) -> int:
        """At once, after a while without any; at least 1."""
        ...


class Allowance:
    """What one tenant has left."""

    __slots__ = ("_paid_until_ns", "_rows_per_second")

    def __init__(self) -> None:
        self._paid_until_ns = 0
        self._rows_per_second = 0.0
        """At which that was reckoned."""

    def wait_ns(self, quota: Quota, now_ns: int) -> Nanoseconds:
        """Return how long until one row is left; 0: there is one now."""
        ahead_ns = _cost_ns(quota, quota.burst_rows - 1)
        return Nanoseconds(max(0, self._owed_ns(quota, now_ns) - ahead_ns))

    def take(self, quota: Quota, rows: int, now_ns: int) -> None:
        """Take rows, whether or not so many are left."""
        self._paid_until_ns = now_ns + self._owed_ns(quota, now_ns) + _cost_ns(quota, rows)
        self._rows_per_second = quota.rows_per_second

    def _owed_ns(self, quota: Quota, now_ns: int) -> int:
        owed_ns = max(0, self._paid_until_ns - now_ns)
        if quota.rows_per_second == self._rows_per_second:
            return owed_ns
        return ceil(owed_ns * self._rows_per_second / quota.rows_per_second)


def _cost_ns(quota: Quota, rows: int) -> int:
    return ceil(rows * NS_PER_SECOND / quota.rows_per_second)
