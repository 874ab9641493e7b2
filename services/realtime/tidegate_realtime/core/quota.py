"""How much one tenant may ask for: a token bucket that knows a single instant.

The generic cell rate algorithm (ITU-T I.371, Annex A). Each row costs 1 / rate seconds, and what
was taken is paid for until some instant, which may lie as far ahead as ``burst_rows`` cost. A
request is let through while one row is left, whatever it has: how many, nobody knows before its
body is read. The rest is taken in advance, and whoever comes next waits for it. So the rate is kept
on average, a request of any size is let through at some time, and nothing has to be put back.
"""

from typing import Protocol

from tidegate.units import NS_PER_SECOND, Nanoseconds


class Quota(Protocol):
    """What a tenant may ask for."""

    @property
    def rows_per_second(self) -> float:
        """On average, above 0."""
        ...

    @property
    def burst_rows(self) -> int:
        """At once, after a while without any; at least 1."""
        ...


class Allowance:
    """What one tenant has left."""

    __slots__ = ("_paid_until_ns",)

    def __init__(self) -> None:
        self._paid_until_ns = 0

    def wait_ns(self, quota: Quota, now_ns: int) -> Nanoseconds:
        """Return how long until one row is left; 0: there is one now."""
        ahead_ns = _cost_ns(quota, quota.burst_rows - 1)
        return Nanoseconds(max(0, self._paid_until_ns - ahead_ns - now_ns))

    def take(self, quota: Quota, rows: int, now_ns: int) -> None:
        """Take rows, whether or not so many are left."""
        self._paid_until_ns = max(self._paid_until_ns, now_ns) + _cost_ns(quota, rows)


def _cost_ns(quota: Quota, rows: int) -> int:
    return int(rows * NS_PER_SECOND / quota.rows_per_second)
