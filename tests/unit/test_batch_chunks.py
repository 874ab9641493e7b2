"""Which worker gets which chunk."""

import pytest

from tidegate_batch.core.chunks import CHUNK_LEASE_NS, RETRY_LIMIT, RETRY_PAUSE_NS, ChunkQueue
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.planning import RowGroup, plan_chunks


def queue_of(*files: int, committed: tuple[str, ...] = ()) -> ChunkQueue:
    """Return a queue of chunks of ten rows, from files of so many rows."""
    groups = [[RowGroup(rows=rows, size_bytes=0)] for rows in files]
    return ChunkQueue(
        plan_chunks(groups, chunk_rows=10),
        committed=committed,
        no_commit_limit_ns=10 * CHUNK_LEASE_NS,
        now_ns=0,
    )


def leased(queue: ChunkQueue, worker: int, now_ns: int = 0) -> str | None:
    lease = queue.lease(worker, now_ns)
    return lease.chunk.chunk if lease else None


def test_a_worker_goes_on_where_it_is_in_a_file_and_the_next_begins_another() -> None:
    queue = queue_of(20, 20)
    assert [leased(queue, worker) for worker in (1, 2, 1, 2)] == [
        "000000",
        "000002",
        "000001",
        "000003",
    ]


def test_a_worker_without_work_takes_the_second_half_of_the_longest_run() -> None:
    queue = queue_of(80)
    assert leased(queue, 1) == "000000"
    assert leased(queue, 2) == "000004"  # of the seven that are left, 1 to 3 stay with worker 1
    assert leased(queue, 1) == "000001"


def test_a_lost_chunk_is_leased_again_after_those_that_never_ran() -> None:
    queue = queue_of(10, 10, 10)
    assert leased(queue, 1) == "000000"
    queue.on_worker_lost(1)
    assert [leased(queue, 2) for _ in range(3)] == ["000001", "000002", "000000"]


@pytest.mark.field_fault("B-02")
def test_the_last_chunk_is_leased_again_when_its_worker_vanished_without_a_word() -> None:
    queue = queue_of(10)
    assert leased(queue, 1) == "000000"
    queue.on_tick(CHUNK_LEASE_NS - 1)
    assert leased(queue, 2, CHUNK_LEASE_NS - 1) is None
    queue.on_tick(CHUNK_LEASE_NS)
    assert leased(queue, 2, CHUNK_LEASE_NS) == "000000"


def test_a_late_commit_by_a_worker_that_was_given_up_counts_once() -> None:
    queue = queue_of(10)
    leased(queue, 1)
    queue.on_tick(CHUNK_LEASE_NS)
    assert leased(queue, 2, CHUNK_LEASE_NS) == "000000"
    queue.on_committed(ChunkId("000000"), CHUNK_LEASE_NS)
    queue.on_committed(ChunkId("000000"), CHUNK_LEASE_NS)
    assert queue.is_finished
    assert queue.statistics().rows_committed == 10


@pytest.mark.field_fault("B-16")
def test_a_worker_that_is_lost_never_counts_against_a_chunk() -> None:
    queue = queue_of(10)
    for worker in range(10 * RETRY_LIMIT):
        assert leased(queue, worker) == "000000"
        queue.on_worker_lost(worker)
    assert leased(queue, 99) == "000000"
    assert queue.on_retriable_failure(ChunkId("000000"), 99, 0)


def test_a_chunk_that_fails_for_want_of_a_part_is_tried_a_bounded_number_of_times() -> None:
    queue = queue_of(10)
    tries = []
    for worker in range(RETRY_LIMIT):
        queue.on_tick(worker * RETRY_PAUSE_NS)
        assert leased(queue, worker, worker * RETRY_PAUSE_NS) == "000000"
        tries.append(queue.on_retriable_failure(ChunkId("000000"), worker, worker * RETRY_PAUSE_NS))
    assert tries == [True] * (RETRY_LIMIT - 1) + [False]


def test_a_chunk_that_failed_for_want_of_a_part_rests_while_others_are_scored() -> None:
    queue = queue_of(10, 10)
    assert leased(queue, 1) == "000000"
    queue.on_retriable_failure(ChunkId("000000"), 1, 0)
    assert [leased(queue, 1), leased(queue, 2)] == ["000001", None]
    queue.on_committed(ChunkId("000001"), 0)
    assert queue.next_tick_at_ns() == RETRY_PAUSE_NS
    queue.on_tick(RETRY_PAUSE_NS - 1)
    assert leased(queue, 1) is None
    queue.on_tick(RETRY_PAUSE_NS)
    assert leased(queue, 1) == "000000"


@pytest.mark.field_fault("B-07")
@pytest.mark.field_fault("B-10")
def test_a_resume_leases_only_what_has_no_commit() -> None:
    queue = queue_of(50, committed=("000001", "000003"))
    assert [leased(queue, 1) for _ in range(4)] == ["000000", "000002", "000004", None]
    assert queue.statistics().rows_committed == 20
