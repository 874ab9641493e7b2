"""A chunk that takes far longer than others did is given to an idle worker, too."""

import pytest

from tidegate_batch.core.chunks import (
    CHUNK_LEASE_NS,
    HOPELESS_AFTER,
    ISOLATED_AFTER,
    LATE_FACTOR,
    LATE_NS,
    ChunkQueue,
    Lease,
)
from tidegate_batch.core.planning import RowGroup, plan_chunks

S = 1_000_000_000
USUAL_NS = 10 * S
LATE_AT_NS = USUAL_NS + LATE_FACTOR * USUAL_NS
SLOW, QUICK, THIRD = 0, 1, 2


def queue_of(chunks: int) -> ChunkQueue:
    files = [[RowGroup(rows=10, size_bytes=0)] for _ in range(chunks)]
    plan = plan_chunks(files, chunk_rows=10)
    return ChunkQueue(plan, committed=(), no_commit_limit_ns=3600 * S, now_ns=0)


def lease(queue: ChunkQueue, worker: int, now_ns: int) -> Lease:
    found = queue.lease(worker, now_ns)
    assert found is not None
    return found


@pytest.fixture
def tail() -> tuple[ChunkQueue, Lease]:
    """One chunk took ten seconds; the last is in the hands of a slow worker since then."""
    queue = queue_of(2)
    first = lease(queue, SLOW, 0)
    queue.on_committed(first.chunk.id, USUAL_NS)
    return queue, lease(queue, SLOW, USUAL_NS)


def test_it_is_late_after_twice_the_usual_time(tail: tuple[ChunkQueue, Lease]) -> None:
    queue, last = tail
    assert queue.lease(QUICK, LATE_AT_NS - 1) is None
    second = lease(queue, QUICK, LATE_AT_NS)
    assert second.chunk == last.chunk
    assert second.is_second
    assert queue.statistics().leased == 1
    assert (queue.statistics().second_attempts, queue.statistics().leases_lost) == (1, 0)


def test_there_is_never_a_third_attempt_nor_a_second_by_the_same_worker(
    tail: tuple[ChunkQueue, Lease],
) -> None:
    queue, _ = tail
    assert queue.lease(SLOW, LATE_AT_NS) is None
    lease(queue, QUICK, LATE_AT_NS)
    assert queue.lease(THIRD, LATE_AT_NS + CHUNK_LEASE_NS // 4) is None


@pytest.mark.parametrize("winner", [SLOW, QUICK])
def test_whoever_commits_first_ends_it(tail: tuple[ChunkQueue, Lease], winner: int) -> None:
    queue, last = tail
    lease(queue, QUICK, LATE_AT_NS)
    queue.on_committed(last.chunk.id, LATE_AT_NS + winner)
    assert queue.is_finished
    queue.on_committed(last.chunk.id, LATE_AT_NS + S)  # the other, who was later
    queue.on_worker_lost(SLOW)
    assert queue.statistics().rows_committed == 20


@pytest.mark.parametrize(("dead", "lost"), [(SLOW, 1), (QUICK, 0)])
def test_if_one_dies_the_other_goes_on(
    tail: tuple[ChunkQueue, Lease], dead: int, lost: int
) -> None:
    queue, last = tail
    lease(queue, QUICK, LATE_AT_NS)
    queue.on_worker_lost(dead)
    totals = queue.statistics()
    assert (totals.pending, totals.leased, totals.leases_lost) == (0, 1, lost)
    queue.on_worker_lost(SLOW + QUICK - dead)
    again = lease(queue, THIRD, LATE_AT_NS)
    assert again.chunk == last.chunk
    assert not again.is_second


def test_a_lease_that_expires_leaves_the_chunk_to_the_second(
    tail: tuple[ChunkQueue, Lease],
) -> None:
    queue, _ = tail
    second = lease(queue, QUICK, LATE_AT_NS)
    queue.on_tick(USUAL_NS + CHUNK_LEASE_NS)
    assert queue.statistics().leased == 1
    queue.on_tick(second.expires_at_ns)
    assert queue.statistics().pending == 1


def test_nothing_is_late_while_nothing_is_known_or_all_is_quick() -> None:
    queue = queue_of(2)
    lease(queue, SLOW, 0)
    assert queue.lease(QUICK, 0) is not None
    assert queue.lease(THIRD, CHUNK_LEASE_NS - 1) is None, "no chunk was ever committed"
    quick = queue_of(2)
    quick.on_committed(lease(quick, SLOW, 0).chunk.id, 1)
    lease(quick, SLOW, 1)
    assert quick.lease(QUICK, LATE_NS) is None
    assert quick.lease(QUICK, LATE_NS + 1) is not None


def test_a_chunk_that_kills_is_never_given_to_two_at_once() -> None:
    queue = queue_of(2)
    queue.on_committed(lease(queue, SLOW, 0).chunk.id, S)
    for worker in range(10, 10 + ISOLATED_AFTER):
        lease(queue, worker, S)
        queue.on_worker_lost(worker)
    assert ISOLATED_AFTER < HOPELESS_AFTER
    assert lease(queue, SLOW, S).is_isolated
    assert queue.lease(QUICK, S + CHUNK_LEASE_NS - 1) is None
