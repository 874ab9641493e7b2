"""Workers are lost, silent, slow or doubled in any order: each chunk is committed, counted once."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tidegate_batch.core.chunks import (
    CHUNK_LEASE_NS,
    ISOLATED_AFTER,
    RETRY_PAUSE_NS,
    ChunkQueue,
    Lease,
    WorkerId,
)
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.planning import PlannedChunk, RowGroup, plan_chunks

NO_COMMIT_LIMIT_NS = 10 * CHUNK_LEASE_NS


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model that only knows which chunks were committed."""

    @initialize(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=5), data=st.data())
    def plan(self, sizes: list[int], data: st.DataObject) -> None:
        files = [[RowGroup(rows=rows, size_bytes=0)] for rows in sizes]
        self.chunks = {chunk.id: chunk for chunk in plan_chunks(files, chunk_rows=10)}
        self.committed = set(
            data.draw(st.sets(st.sampled_from(sorted(self.chunks)))) if self.chunks else ()
        )
        self.now_ns = 0
        self.rests_until_ns = 0
        """No chunk rests longer."""
        self.last_commit_ns = 0
        self.deaths: Counter[ChunkId] = Counter()
        """Of workers with the chunk in hand, whose machine was not taken away."""
        self.queue = ChunkQueue(
            list(self.chunks.values()),
            committed=self.committed,
            no_commit_limit_ns=NO_COMMIT_LIMIT_NS,
            now_ns=0,
        )
        self.held: list[Lease] = []
        """What workers are at, whether or not the queue has given up on it."""
        self.workers: set[WorkerId] = set()
        self.next_worker = 0

    @rule()
    def a_worker_starts(self) -> None:
        self.workers.add(self.next_worker)
        self.next_worker += 1

    def idle(self) -> list[WorkerId]:
        return sorted(self.workers - {lease.worker for lease in self.held})

    @precondition(lambda self: self.idle())
    @rule(data=st.data())
    def an_idle_worker_asks(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.idle()))
        before = self.queue.statistics()
        lease = self.queue.lease(worker, self.now_ns)
        if lease is None:
            rest = self.now_ns < self.rests_until_ns
            assert rest or before.pending == 0, "work is left, and an idle worker got none"
            return
        assert lease.chunk.id not in self.committed
        holders = [held for held in self.held if held.chunk == lease.chunk and self.holds(held)]
        assert len(holders) == lease.is_second
        assert worker not in [held.worker for held in holders]
        assert lease.is_isolated == (self.deaths[lease.chunk.id] >= ISOLATED_AFTER)
        self.held.append(lease)

    def holds(self, lease: Lease) -> bool:
        """Say whether the queue still counts on this worker."""
        return self.now_ns < lease.expires_at_ns

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_worker_commits(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.held))
        self.held.remove(lease)
        if lease.chunk.id not in self.committed:
            self.last_commit_ns = self.now_ns
        self.committed.add(lease.chunk.id)
        self.queue.on_committed(lease.chunk.id, self.now_ns)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def a_chunk_fails_for_want_of_a_part(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.held))
        self.held.remove(lease)
        self.queue.on_retriable_failure(lease.chunk.id, lease.worker, self.now_ns)
        self.rests_until_ns = self.now_ns + RETRY_PAUSE_NS

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), is_preempted=st.booleans())
    def a_worker_dies(self, data: st.DataObject, *, is_preempted: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        self.workers.remove(worker)
        for lease in [held for held in self.held if held.worker == worker]:
            self.held.remove(lease)
            is_his = self.holds(lease) and lease.chunk.id not in self.committed
            self.deaths[lease.chunk.id] += is_his and not is_preempted
        self.queue.on_worker_lost(worker, is_preempted=is_preempted)

    @rule(by_ns=st.integers(0, CHUNK_LEASE_NS))
    def time_passes(self, by_ns: int) -> None:
        self.now_ns += by_ns
        self.queue.on_tick(self.now_ns)

    @invariant()
    def the_totals_add_up(self) -> None:
        totals = self.queue.statistics()
        assert totals.chunks == len(self.chunks)
        assert totals.chunks == totals.pending + totals.leased + totals.committed
        assert totals.committed == len(self.committed)
        assert totals.rows_committed == sum(self.chunks[ChunkId(c)].rows for c in self.committed)
        assert totals.rows_committed <= totals.rows
        assert self.queue.is_finished == (len(self.committed) == len(self.chunks))

    @invariant()
    def silence_is_never_endless(self) -> None:
        unfinished = len(self.committed) < len(self.chunks)
        since_ns = self.now_ns - self.last_commit_ns
        assert self.queue.is_stuck(self.now_ns) == (unfinished and since_ns >= NO_COMMIT_LIMIT_NS)
        assert self.queue.next_tick_at_ns() <= self.last_commit_ns + NO_COMMIT_LIMIT_NS

    def teardown(self) -> None:
        """From wherever it stands, one worker that lives finishes the job."""
        if not hasattr(self, "queue"):
            return
        for worker in self.workers:
            self.queue.on_worker_lost(worker)
        self.queue.on_tick(self.now_ns + CHUNK_LEASE_NS)
        leased: Counter[PlannedChunk] = Counter()
        while (lease := self.queue.lease(-1, self.now_ns)) is not None:
            leased[lease.chunk] += 1
            self.queue.on_committed(lease.chunk.id, self.now_ns)
        assert self.queue.is_finished
        assert set(leased.values()) <= {1}
        assert {chunk.id for chunk in leased} == set(self.chunks) - self.committed


TestQueue = QueueMachine.TestCase
