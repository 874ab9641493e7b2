"""What time was spent on, added up: by the stages of requests, and by the sizes of model calls."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Spent(NamedTuple):
    """So many times, so long in all."""

    times: int
    ns: int

    def as_json(self) -> dict[str, int]:
        """Write it as Triton does."""
        return {"count": self.times, "ns": self.ns}


class Stages:
    """Where the time of one version's answered requests went; plain sums, for the hot path."""

    __slots__ = ("answered", "decode_ns", "encode_ns", "execute_ns", "queue_ns", "refused")

    def __init__(self) -> None:
        self.answered = 0
        self.decode_ns = 0
        """From the last byte of a request to its place in the queue."""
        self.queue_ns = 0
        self.execute_ns = 0
        """In model calls, the whole of each."""
        self.encode_ns = 0
        """From the end of the model call to the bytes of the reply."""
        self.refused = Spent(0, 0)
        """Requests that were not answered, whatever the reason, and how long they were here."""

    def on_answer(self, *, decode_ns: int, queue_ns: int, execute_ns: int, total_ns: int) -> None:
        """Note one answer; what is none of the stages before was encoding."""
        self.answered += 1
        self.decode_ns += decode_ns
        self.queue_ns += queue_ns
        self.execute_ns += execute_ns
        self.encode_ns += total_ns - decode_ns - queue_ns - execute_ns

    def on_refusal(self, took_ns: int) -> None:
        """Note a request that got no answer."""
        self.refused = Spent(self.refused.times + 1, self.refused.ns + took_ns)

    def by_name(self) -> dict[str, int]:
        """Return the nanoseconds of each stage of what was answered."""
        return {
            "decode": self.decode_ns,
            "queue": self.queue_ns,
            "execute": self.execute_ns,
            "encode": self.encode_ns,
        }


class CallTimes:
    """How long the model calls of one version took, by their rows.

    Written by the threads of its backend, read on the loop.
    """

    def __init__(self) -> None:
        self._calls: Counter[int] = Counter()
        self._ns: Counter[int] = Counter()

    def note(self, rows: int, took_ns: int) -> None:
        """Note one call that answered."""
        self._calls[rows] += 1
        self._ns[rows] += took_ns

    def clear(self) -> None:
        """Forget what was noted."""
        self._calls.clear()
        self._ns.clear()

    def by_rows(self) -> Mapping[int, Spent]:
        """Return calls and their time for each number of rows, smallest first."""
        calls, ns = dict(self._calls), dict(self._ns)
        return {rows: Spent(calls[rows], ns.get(rows, 0)) for rows in sorted(calls)}
