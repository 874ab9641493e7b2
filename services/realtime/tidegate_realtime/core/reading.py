"""Who may wait until a thread turns his texts or images into tensors, and who is sent away.

A photo takes some 100 ms to decode, ten times as long as many a model needs for it, so reading has
a queue of its own before that of the model. It is served in the order of arrival by a few threads.
Nobody is let in who would be late: whoever comes waits at most for the work ahead of him, divided
by the threads (Graham, "Bounds on multiprocessing timing anomalies", 1969), is read, and then needs
the time of one row. Durations are those that were seen lately of the same kind, which is a model
version and the size of the body to a factor of two.

What is not known is not held against anybody: a kind that has not been read for ten seconds counts
as quick. Then too many may be let in, so each is looked at again when a thread is free for him;
reading what will be late anyway would only make others late.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.statistics import RefusalCode

WAITING_LIMIT: Final = 1_024
"""Requests. Texts of 1 ms each fill a second; what takes longer is refused by its time before."""
FORGOTTEN_AFTER_NS: Final = 10 * NS_PER_SECOND
"""As of the overhead: a kind that is refused must show now and then whether it is quicker."""
FOREVER: Final = Nanoseconds(1 << 62)
_GAIN: Final = 0.125
"""Of the newest duration in the mean, as of round trips in RFC 6298, section 2."""


@dataclass(slots=True, eq=False)
class Unread:
    """One request that is to be read."""

    kind: Hashable
    """Those of one kind take about the same time."""
    arrived_at_ns: Nanoseconds
    deadline_at_ns: Nanoseconds
    """The latest that it may have; ``FOREVER`` if it may not be refused."""
    after_ns: int
    """From tensors to an answer, on an idle executor."""
    began_at_ns: Nanoseconds = FOREVER
    """When a thread took it."""


class Refusal(NamedTuple):
    """Why one is not read."""

    code: RefusalCode
    predicted_ns: int
    """From its arrival to its answer, had it been read."""
    ahead: int
    """Requests that wait or are read before it."""


class Due(NamedTuple):
    """Whose turn it is."""

    unread: Unread
    refusal: Refusal | None
    """``None``: read it."""


class _Seen(NamedTuple):
    mean_ns: float
    at_ns: Nanoseconds


class ReadingQueue:
    """What waits for a thread, what is being read, and how long that takes."""

    def __init__(self, *, threads: int, limit: int = WAITING_LIMIT) -> None:
        """Begin with nothing known.

        Args:
            threads: That read at the same time.
            limit: Most requests that wait.
        """
        self._threads = threads
        self._limit = limit
        self._waiting: OrderedDict[Unread, None] = OrderedDict()
        self._kinds: Counter[Hashable] = Counter()  # of those that wait
        self._running: dict[Unread, None] = {}
        self._seen: dict[Hashable, _Seen] = {}

    @property
    def waiting(self) -> int:
        """Requests that no thread has taken yet."""
        return len(self._waiting)

    @property
    def known_kinds(self) -> Collection[Hashable]:
        """Kinds whose duration is kept."""
        return self._seen.keys()

    def is_reading(self, unread: Unread) -> bool:
        """Whether a thread has taken it, and is not done."""
        return unread in self._running

    def on_arrival(self, unread: Unread, now_ns: Nanoseconds) -> Refusal | None:
        """Let one wait for ``take``, or say why not."""
        predicted_at_ns = self._ends_at_ns(unread, self._wait_ns(now_ns), now_ns)
        ahead = len(self._waiting) + len(self._running)
        predicted_ns = predicted_at_ns - unread.arrived_at_ns
        if len(self._waiting) >= self._limit:
            return Refusal("queue_full", predicted_ns, ahead)
        if predicted_at_ns >= unread.deadline_at_ns:
            return Refusal("deadline_unreachable", predicted_ns, ahead)
        self._waiting[unread] = None
        self._kinds[unread.kind] += 1
        return None

    def take(self, now_ns: Nanoseconds) -> Due | None:
        """Pass the next one to a thread, or out; ``None``: all threads are busy, or nobody waits.

        To be called until there is none.
        """
        if not self._waiting or len(self._running) >= self._threads:
            return None
        unread = next(iter(self._waiting))
        self.on_departure(unread)
        ends_at_ns = self._ends_at_ns(unread, 0, now_ns)
        if ends_at_ns >= unread.deadline_at_ns:
            predicted_ns = ends_at_ns - unread.arrived_at_ns
            return Due(unread, Refusal("deadline_unreachable", predicted_ns, len(self._running)))
        unread.began_at_ns = now_ns
        self._running[unread] = None
        return Due(unread, None)

    def on_departure(self, unread: Unread) -> None:
        """Forget one if it waits; a thread that has taken it goes on."""
        if unread in self._waiting:
            del self._waiting[unread]
            self._kinds[unread.kind] -= 1
            if not self._kinds[unread.kind]:
                del self._kinds[unread.kind]

    def on_read(self, unread: Unread, now_ns: Nanoseconds) -> Nanoseconds:
        """Learn that a thread is free again, and return how long it took."""
        del self._running[unread]
        took_ns = Nanoseconds(now_ns - unread.began_at_ns)
        mean_ns = self._mean_ns(unread.kind, now_ns) or took_ns
        if unread.kind not in self._seen:  # versions come and go; theirs must not pile up
            self._seen = {
                kind: seen for kind, seen in self._seen.items() if not _is_old(seen, now_ns)
            }
        self._seen[unread.kind] = _Seen(mean_ns + _GAIN * (took_ns - mean_ns), now_ns)
        return took_ns

    def _ends_at_ns(self, unread: Unread, wait_ns: float, now_ns: Nanoseconds) -> int:
        return round(now_ns + wait_ns + self._mean_ns(unread.kind, now_ns)) + unread.after_ns

    def _wait_ns(self, now_ns: Nanoseconds) -> float:
        if len(self._waiting) + len(self._running) < self._threads:
            return 0.0
        work_ns = sum(count * self._mean_ns(kind, now_ns) for kind, count in self._kinds.items())
        for unread in self._running:
            left_ns = unread.began_at_ns + self._mean_ns(unread.kind, now_ns) - now_ns
            work_ns += max(0.0, left_ns)
        return work_ns / self._threads

    def _mean_ns(self, kind: Hashable, now_ns: Nanoseconds) -> float:
        seen = self._seen.get(kind)
        return 0.0 if seen is None or _is_old(seen, now_ns) else seen.mean_ns


def _is_old(seen: _Seen, now_ns: Nanoseconds) -> bool:
    return now_ns - seen.at_ns > FORGOTTEN_AFTER_NS
