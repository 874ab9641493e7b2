"""Who scores which chunk, and for how long nobody may wait: a queue of leases in memory.

::

    pending ──(leased)──► leased ──(committed)──► committed
     │   ▲                  │                         ▲
     │   └────(given up)────┘                         │
     └──────────────────(committed)───────────────────┘

A chunk is given up when its worker died, or was silent for the whole lease. It may be committed in
any state: a worker that was given up may still be at work, and whoever commits first wins. A
chunk that was given up goes to the back of the queue, so that one that kills its workers never
keeps the others waiting, and one that is merely slow is committed before anybody would score it
again.

Chunks that follow each other in one file form a *run*. A worker goes on in its own run, since it
has the file open and decoded just up to there. Without a run of its own it takes a new one, else
the second half of the longest.

Once no chunk is left for an idle worker, it may be given one that another is late with: a *second
attempt*. Whoever commits first wins; if either dies, the other goes on.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_batch.core.leaving import Usual
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.planning import PlannedChunk, continues

WorkerId = int
"""Names one worker process; never given again to its replacement."""

CHUNK_LEASE_NS: Final = Nanoseconds(120 * NS_PER_SECOND)
"""Twice the 60 s that a chunk is meant to take at most."""
RETRY_LIMIT: Final = 3
"""How often one chunk may fail because a store or the like was not there."""
ISOLATED_AFTER: Final = 3
"""Workers that died with one chunk in hand, before it is scored in a process apart."""
HOPELESS_AFTER: Final = 10
"""And before nobody is given it any more. Kills from outside look the same from afar: of ten in a
row even a machine that loses a third of its workers sees one in 17,000 chunks."""
LATE_FACTOR: Final = 2
"""A chunk that takes so many times as long as others did is worth a second attempt."""
LATE_NS: Final = Nanoseconds(5 * NS_PER_SECOND)
"""But never earlier: a worker that only starts slowly should not be overtaken for it."""
RETRY_PAUSE_NS: Final = Nanoseconds(5 * NS_PER_SECOND)
"""Until such a chunk is leased again; other chunks are scored meanwhile."""


class ChunkState(StrEnum):
    """Where a chunk is in its life."""

    PENDING = "pending"
    LEASED = "leased"
    COMMITTED = "committed"


class ChunkEvent(StrEnum):
    """What moves a chunk."""

    LEASED = "leased"
    GIVEN_UP = "given_up"
    COMMITTED = "committed"


TABLE: Final = {
    (ChunkState.PENDING, ChunkEvent.LEASED): ChunkState.LEASED,
    (ChunkState.PENDING, ChunkEvent.COMMITTED): ChunkState.COMMITTED,  # by one that was given up
    (ChunkState.LEASED, ChunkEvent.GIVEN_UP): ChunkState.PENDING,
    (ChunkState.LEASED, ChunkEvent.COMMITTED): ChunkState.COMMITTED,
    (ChunkState.COMMITTED, ChunkEvent.COMMITTED): ChunkState.COMMITTED,  # by a second attempt
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's turn at a chunk."""

    chunk: PlannedChunk
    worker: WorkerId
    expires_at_ns: int
    is_isolated: bool = False
    """Several workers have died with this chunk in hand."""
    is_second: bool = False
    """Another worker has the chunk, too, and is late with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Totals that always add up to the plan."""

    chunks: int
    pending: int
    leased: int
    committed: int
    rows: int
    rows_committed: int
    leases_lost: int
    """Leases that ended without a commit: workers that died, or were silent for too long."""
    second_attempts: int = 0
    """Chunks that an idle worker was given although another had them already."""


class ChunkQueue:
    """The chunks of one plan that are not committed yet, and who has which."""

    def __init__(
        self,
        chunks: Sequence[PlannedChunk],
        *,
        committed: Collection[str],
        no_commit_limit_ns: int,
        now_ns: int,
    ) -> None:
        self._chunks = {chunk.id: chunk for chunk in chunks}
        self._states = {
            chunk.id: ChunkState.COMMITTED if chunk.chunk in committed else ChunkState.PENDING
            for chunk in chunks
        }
        self._rows = sum(chunk.rows for chunk in chunks)
        self._rows_left = self._rows
        self._left = len(chunks)
        for chunk in chunks:
            if chunk.chunk in committed:
                self._count_committed(chunk.id)
        self._leases: dict[ChunkId, Lease] = {}
        self._seconds: dict[ChunkId, Lease] = {}
        """Second attempts, each beside a lease of the same chunk."""
        self._usual = Usual()
        self._second_attempts = 0
        self._fresh = deque(self._runs())
        self._own: dict[WorkerId, deque[PlannedChunk]] = {}
        self._failures: dict[ChunkId, int] = {}
        self._resting = deque[tuple[int, PlannedChunk]]()
        """Chunks that wait for a part, and until when; the first to wait is the first again."""
        self._deaths: dict[ChunkId, int] = {}
        """How many workers died with a chunk in hand, those aside whose machine was taken."""
        self._leases_lost = 0
        self.no_commit_limit_ns = no_commit_limit_ns
        self._progress_at_ns = now_ns

    def _runs(self) -> list[deque[PlannedChunk]]:
        runs: list[deque[PlannedChunk]] = []
        for chunk in self._chunks.values():
            if self._states[chunk.id] is ChunkState.COMMITTED:
                continue
            if runs and continues(runs[-1][-1].pieces[-1], chunk.pieces[0]):
                runs[-1].append(chunk)
            else:
                runs.append(deque([chunk]))
        return runs

    @property
    def is_finished(self) -> bool:
        """Every chunk is committed."""
        return self._left == 0

    def lease(self, worker: WorkerId, now_ns: int) -> Lease | None:
        """Give an idle worker a chunk; ``None`` if all are committed or in good hands."""
        while (chunk := self._next_for(worker)) is not None:
            if self._states[chunk.id] is not ChunkState.PENDING:  # by one that was given up
                continue
            self._move(chunk.id, ChunkEvent.LEASED)
            lease = Lease(
                chunk=chunk,
                worker=worker,
                expires_at_ns=now_ns + CHUNK_LEASE_NS,
                is_isolated=self._deaths.get(chunk.id, 0) >= ISOLATED_AFTER,
            )
            self._leases[chunk.id] = lease
            return lease
        return self._second(worker, now_ns)

    def _second(self, worker: WorkerId, now_ns: int) -> Lease | None:
        """Give an idle worker the chunk that is latest, too: whoever commits it first wins."""
        late = [lease for lease in self._leases.values() if self._is_late(lease, now_ns)]
        first = min(late, key=lambda lease: lease.expires_at_ns, default=None)
        if first is None or first.worker == worker:
            return None
        second = replace(
            first, worker=worker, expires_at_ns=now_ns + CHUNK_LEASE_NS, is_second=True
        )
        self._seconds[first.chunk.id] = second
        self._second_attempts += 1
        return second

    def _is_late(self, lease: Lease, now_ns: int) -> bool:
        """Say whether a chunk takes much longer than others did, and is in one pair of hands."""
        if lease.is_isolated or lease.chunk.id in self._seconds or not self._usual.chunks:
            return False
        since_ns = now_ns - (lease.expires_at_ns - CHUNK_LEASE_NS)
        return since_ns >= max(LATE_FACTOR * self._usual.mean_ns, LATE_NS)

    def _next_for(self, worker: WorkerId) -> PlannedChunk | None:
        own = self._own.get(worker)
        if not own:
            own = self._own[worker] = self._fresh.popleft() if self._fresh else self._stolen()
        return own.popleft() if own else None

    def _stolen(self) -> deque[PlannedChunk]:
        """Take the second half of the longest run; the first half stays with its worker."""
        longest = max(self._own.values(), key=len, default=deque[PlannedChunk]())
        taken = deque[PlannedChunk]()
        for _ in range((len(longest) + 1) // 2):
            taken.appendleft(longest.pop())
        return taken

    def on_committed(self, chunk: ChunkId, now_ns: int) -> None:
        """Count a chunk whose commit stands, whoever wrote it; a second time changes nothing."""
        lease = self._leases.pop(chunk, None)
        if self._seconds.pop(chunk, None) is None and lease is not None:
            began_at_ns = lease.expires_at_ns - CHUNK_LEASE_NS
            self._usual = self._usual.after(now_ns - began_at_ns)
        if self._states[chunk] is not ChunkState.COMMITTED:
            self._count_committed(chunk)
            self._progress_at_ns = now_ns
        self._move(chunk, ChunkEvent.COMMITTED)

    def _count_committed(self, chunk: ChunkId) -> None:
        self._left -= 1
        self._rows_left -= self._chunks[chunk].rows

    def rows_of(self, chunk: ChunkId) -> int:
        """Return how many rows a chunk has."""
        return self._chunks[chunk].rows

    def on_retriable_failure(self, chunk: ChunkId, worker: WorkerId, now_ns: int) -> bool:
        """Take a chunk back that failed for want of a part; False if that was once too often.

        Nobody gets it again before ``RETRY_PAUSE_NS`` are over.
        """
        self._failures[chunk] = self._failures.get(chunk, 0) + 1
        if self._give_up(chunk, worker):
            self._resting.append((now_ns + RETRY_PAUSE_NS, self._chunks[chunk]))
        return self._failures[chunk] < RETRY_LIMIT

    def on_worker_lost(self, worker: WorkerId, *, is_preempted: bool = False) -> None:
        """Take back what a dead worker held, and what it would have scored next.

        It never counts against the job. It counts against the chunk, which may have killed the
        worker, but for workers whose machine was taken away.
        """
        for lease in [held for held in self._held() if held.worker == worker]:
            chunk = lease.chunk.id
            self._deaths[chunk] = self._deaths.get(chunk, 0) + (not is_preempted)
            self._put_back(lease)
        if rest := self._own.pop(worker, None):
            self._fresh.append(rest)

    def deadly(self) -> PlannedChunk | None:
        """Return a chunk that has killed so many workers that nobody should be given it."""
        for chunk, deaths in self._deaths.items():
            if deaths >= HOPELESS_AFTER and self._states[chunk] is not ChunkState.COMMITTED:
                return self._chunks[chunk]
        return None

    def on_tick(self, now_ns: int) -> None:
        """Give up the leases that have expired, and let chunks be leased that have rested."""
        for lease in [held for held in self._held() if held.expires_at_ns <= now_ns]:
            self._put_back(lease)
        while self._resting and self._resting[0][0] <= now_ns:
            self._fresh.append(deque([self._resting.popleft()[1]]))

    def _held(self) -> list[Lease]:
        return [*self._leases.values(), *self._seconds.values()]

    def _put_back(self, lease: Lease) -> None:
        if self._give_up(lease.chunk.id, lease.worker):
            self._fresh.append(deque([lease.chunk]))

    def _give_up(self, chunk: ChunkId, worker: WorkerId) -> bool:
        """End a lease, and say whether nobody has the chunk any more.

        Expired, somebody else may have it since; and of two attempts the other goes on.
        """
        lease, second = self._leases.get(chunk), self._seconds.get(chunk)
        if second is not None and second.worker == worker:
            del self._seconds[chunk]
            return False
        if lease is None or lease.worker != worker:
            return False
        if second is not None:
            self._leases[chunk] = self._seconds.pop(chunk)
            self._leases_lost += 1
            return False
        del self._leases[chunk]
        self._move(chunk, ChunkEvent.GIVEN_UP)
        self._leases_lost += 1
        return True

    def _move(self, chunk: ChunkId, event: ChunkEvent) -> None:
        self._states[chunk] = TABLE[self._states[chunk], event]

    def is_stuck(self, now_ns: int) -> bool:
        """Say whether work is left and no chunk has been committed for too long."""
        return not self.is_finished and now_ns >= self._progress_at_ns + self.no_commit_limit_ns

    def next_tick_at_ns(self) -> int:
        """Return when ``on_tick`` or ``is_stuck`` may next have something to say."""
        expiries = (lease.expires_at_ns for lease in self._held())
        rested = (at_ns for at_ns, _ in self._resting)
        return min([self._progress_at_ns + self.no_commit_limit_ns, *expiries, *rested])

    def statistics(self) -> QueueStatistics:
        """Count chunks and rows by where they are."""
        leased, committed = len(self._leases), len(self._chunks) - self._left
        return QueueStatistics(
            chunks=len(self._chunks),
            pending=self._left - leased,
            leased=leased,
            committed=committed,
            rows=self._rows,
            rows_committed=self._rows - self._rows_left,
            leases_lost=self._leases_lost,
            second_attempts=self._second_attempts,
        )
