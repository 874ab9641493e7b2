"""How many connections one listener has, and how many of them come from one address."""

from collections import Counter
from typing import Final, NamedTuple

BACKLOG: Final = 1_024
"""Connections that the kernel keeps until they are accepted."""


class ConnectionLimits(NamedTuple):
    """Both inclusive."""

    all: int = 2_048
    """A descriptor and some 10 to 40 KiB each."""
    per_address: int = 512
    """Not known to granian. All callers behind one proxy have its address."""


class Connections:
    """Counts the connections of one listener."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._all = 0

    def enter(self, address: str) -> bool:
        """Count one more; ``False`` if it is too many and must be closed. ``leave`` follows."""
        self._all += 1
        self._by_address[address] += 1
        return (
            self._all <= self._limits.all and self._by_address[address] <= self._limits.per_address
        )

    def leave(self, address: str) -> None:
        """Count one less."""
        self._all -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
