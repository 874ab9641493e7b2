"""How much of what a model is given is padding, counted since the version was loaded."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingStatistics:
    """Token positions that were given to the model so far."""

    tokens: int = 0
    """Of texts."""
    padding: int = 0
    """Added, so that the rows of a request have the length of a bucket."""

    @property
    def waste(self) -> float:
        """Share of all positions that is padding, 0 to below 1; 0 before the first text."""
        return self.padding / max(1, self.tokens + self.padding)


class PaddingCount:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = self._padding = 0

    def add(self, *, tokens: int, positions: int) -> None:
        """Count a batch by its real tokens and its rows times their padded length."""
        with self._lock:
            self._tokens += tokens
            self._padding += positions - tokens

    def statistics(self) -> PaddingStatistics:
        """Return what was counted so far."""
        with self._lock:
            return PaddingStatistics(tokens=self._tokens, padding=self._padding)
