"""Statistics of several batchers as one: what is added, and what is not."""

from dataclasses import replace

from tidegate.units import Nanoseconds
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.core.summing import summed


def batcher(*arrivals_ns: int, rows: int = 1) -> MicroBatcher:
    core = MicroBatcher(executors=2, limits=BatchLimits())
    for at_ns in arrivals_ns:
        now = Nanoseconds(at_ns)
        core.on_arrival(Request(rows, (), now, Nanoseconds(10**9 + at_ns)), now)
    return core


def statistics() -> list[BatcherStatistics]:
    return [batcher(5, 6, 7, 8).statistics(), batcher(1, 2, 3, rows=4).statistics()]


def test_counts_are_added_by_their_names_and_the_total_accounts_for_each() -> None:
    total = summed(statistics())
    assert (total.arrived, total.arrived_rows) == (7, 4 + 12)
    assert (total.running, total.waiting, total.batches_running) == (4, 3, 4)
    assert total.batches_by_rows == {1: 2, 4: 2}
    assert (total.queue.requests, total.queue.rows) == (3, 2 + 4)
    assert total.unaccounted == 0


def test_what_waits_longest_is_that_of_all() -> None:
    total = summed(statistics())
    assert total.queue.waiting_since_ns == 3
    assert total.queue.earliest_deadline_at_ns == 10**9 + 3
    assert total.queue.waiting_since_by_class == (None, 3, None, None)
    assert total.queue.rows_by_class == (0, 6, 0, 0)
    idle = batcher().statistics()
    assert summed([idle, idle]).queue.waiting_since_ns is None


def test_executors_are_shared_and_not_added() -> None:
    first, second = statistics()
    assert summed([first, second]).executors_usable == 2
    gone = [replace(each, executors_usable=0) for each in (first, second)]
    assert summed(gone).executors_usable == 0


def test_one_is_the_same_as_it_was() -> None:
    (alone, _) = statistics()
    assert summed([alone]) == alone
