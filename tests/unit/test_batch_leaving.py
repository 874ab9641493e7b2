"""Whether a worker whose machine is taken away finishes its chunk."""

import pytest

from tidegate_batch.core.chunks import ISOLATED_AFTER, RETRY_LIMIT, ChunkQueue
from tidegate_batch.core.leaving import UNKNOWN_NS, Farewell, Usual, farewell
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.planning import RowGroup, plan_chunks

S = 1_000_000_000


@pytest.mark.parametrize(
    ("busy_s", "left_s", "expected"),
    [
        (0, 12, Farewell.FINISH),
        (0, 11, Farewell.DROP),
        (5, 7, Farewell.FINISH),
        (5, 6, Farewell.DROP),
        (20, 0, Farewell.FINISH),  # it should be done by now
    ],
)
def test_a_chunk_is_finished_only_if_that_fits_with_a_fifth_to_spare(
    busy_s: int, left_s: int, expected: Farewell
) -> None:
    usual = Usual().after(10 * S)
    assert farewell(usual, busy_ns=busy_s * S, left_ns=left_s * S) is expected


def test_a_first_chunk_is_finished_only_if_any_would_fit() -> None:
    assert farewell(Usual(), busy_ns=0, left_ns=UNKNOWN_NS) is Farewell.FINISH
    assert farewell(Usual(), busy_ns=0, left_ns=UNKNOWN_NS - 1) is Farewell.DROP


def test_later_chunks_weigh_more() -> None:
    usual = Usual()
    for took_s in (100, 10, 10, 10, 10, 10, 10, 10, 10):
        usual = usual.after(took_s * S)
    assert usual.chunks == 9
    assert 10 * S < usual.mean_ns < 20 * S


def queue_of_one() -> ChunkQueue:
    chunks = plan_chunks([[RowGroup(rows=10, size_bytes=0)]], chunk_rows=10)
    return ChunkQueue(chunks, committed=(), no_commit_limit_ns=3600 * S, now_ns=0)


@pytest.mark.field_fault("B-16")
def test_preemption_never_counts_against_a_chunk() -> None:
    queue = queue_of_one()
    for worker in range(10 * RETRY_LIMIT):
        lease = queue.lease(worker, 0)
        assert lease is not None
        assert not lease.is_isolated
        queue.on_worker_lost(worker, is_preempted=True)
    assert queue.deadly() is None


def test_a_chunk_is_isolated_once_three_workers_have_died_with_it() -> None:
    queue = queue_of_one()
    isolated = []
    for worker in range(10):
        lease = queue.lease(worker, 0)
        assert lease is not None
        isolated.append(lease.is_isolated)
        assert queue.deadly() is None
        queue.on_worker_lost(worker)
    assert isolated == [False] * ISOLATED_AFTER + [True] * (10 - ISOLATED_AFTER)
    deadly = queue.deadly()
    assert deadly is not None
    assert deadly.chunk == "000000"
    queue.on_committed(ChunkId("000000"), 0)  # by a worker that was given up
    assert queue.deadly() is None
