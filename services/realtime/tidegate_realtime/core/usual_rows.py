"""How many rows a request has of late."""

from typing import Final

WINDOW: Final = 256
"""Requests after which only a third of what was before them counts."""


class UsualRows:
    """A mean of rows by request that forgets, from two totals that only grow."""

    __slots__ = ("_mean", "_requests", "_rows")

    def __init__(self) -> None:
        self._requests = self._rows = 0
        self._mean = 1.0

    def rows(self, requests: int, rows: int) -> int:
        """Return the mean, rounded and at least 1.

        Args:
            requests: All that have arrived so far.
            rows: Of all of them.
        """
        new = requests - self._requests
        if new:
            latest = (rows - self._rows) / new
            share = min(1.0, new / WINDOW) if self._requests else 1.0
            self._mean += share * (latest - self._mean)
            self._requests, self._rows = requests, rows
        return max(1, round(self._mean))
