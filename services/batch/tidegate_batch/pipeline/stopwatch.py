"""Where a chunk's time goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.clock import Clock
from tidegate.units import ns_to_ms
from tidegate_batch.core.records import Timings


class Stopwatch:
    """Adds up where a chunk's time goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ns = clock.now_ns()
        self._spent_ns: dict[str, int] = {}

    @contextmanager
    def measuring(self, what: str) -> Iterator[None]:
        """Add the time until the end of the block to ``what``."""
        began_ns = self._clock.now_ns()
        yield
        took_ns = self._clock.now_ns() - began_ns
        self._spent_ns[what] = self._spent_ns.get(what, 0) + took_ns

    def timings(self) -> Timings:
        """Return what was measured so far; encoding is what the others inside of it leave."""
        read, score = self._spent_ns.get("read", 0), self._spent_ns.get("score", 0)
        encode = self._spent_ns.get("encode", 0) - read - score
        return Timings(
            read_ms=ns_to_ms(read),
            score_ms=ns_to_ms(score),
            encode_ms=ns_to_ms(encode),
            store_ms=ns_to_ms(self._spent_ns.get("store", 0)),
            total_ms=ns_to_ms(self._clock.now_ns() - self._started_ns),
        )
