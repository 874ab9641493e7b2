"""What a worker does when it is told that its machine will soon be taken away.

Preemption is ordinary input: it costs at most the chunk in hand, and never counts against it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

UNKNOWN_NS: Final = 60_000_000_000
"""What a chunk is meant to take at most, for a worker that has none behind it."""
_MARGIN: Final = 0.2
"""How much longer than usual a chunk may take, and still be worth finishing."""


class Farewell(StrEnum):
    """What becomes of the chunk in hand."""

    FINISH = "finish"
    DROP = "drop"
    """Somebody else scores it; nothing of it is visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """How long chunks have taken in this worker so far."""

    chunks: int = 0
    mean_ns: float = 0.0

    def after(self, took_ns: int) -> "Usual":
        """Count one more chunk; later ones weigh more, as caches and files have warmed up."""
        weight = max(0.3, 1 / (self.chunks + 1))
        mean_ns = self.mean_ns + weight * (took_ns - self.mean_ns)
        return Usual(chunks=self.chunks + 1, mean_ns=mean_ns)


def farewell(usual: Usual, *, busy_ns: int, left_ns: int) -> Farewell:
    """Decide about the chunk in hand.

    Args:
        usual: Of this worker.
        busy_ns: Since it began the chunk.
        left_ns: Until the machine is gone.

    Returns:
        To finish it only if that fits, with a margin; a first chunk, of which nothing is known,
        is dropped unless as much time is left as any chunk should take.
    """
    if not usual.chunks:
        return Farewell.FINISH if left_ns >= UNKNOWN_NS else Farewell.DROP
    needed_ns = usual.mean_ns * (1 + _MARGIN) - busy_ns
    return Farewell.FINISH if needed_ns <= left_ns else Farewell.DROP
