from itertools import product

import pytest

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Batch, Reject, StartBatch
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import (
    TABLE,
    Event,
    IllegalTransitionError,
    Request,
    State,
    advance,
)

FINAL = {State.ANSWERED, State.REJECTED, State.EXPIRED, State.CANCELLED, State.FAILED}
NOW = Nanoseconds(0)


@pytest.mark.parametrize(("pair", "after"), TABLE.items())
def test_every_pair_of_the_table_leads_where_it_says(
    pair: tuple[State, Event], after: State
) -> None:
    assert advance(*pair) is after


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(State, Event) if pair not in TABLE]
)
def test_every_other_pair_is_refused_naming_both(state: State, event: Event) -> None:
    with pytest.raises(
        IllegalTransitionError,
        match=f"^cannot apply {event.name} to a request in {state.name}$",
    ):
        advance(state, event)


def test_nothing_happens_to_a_request_that_has_ended() -> None:
    assert not {state for state, _ in TABLE} & FINAL
    assert {state for state, _ in TABLE} | FINAL == set(State)


def batcher() -> MicroBatcher:
    return MicroBatcher(executors=1, limits=BatchLimits(cap_rows=2, queue_limit_rows=2))


def request(rows: int = 1) -> Request:
    return Request(rows, (), NOW, Nanoseconds(10))


def test_an_illegal_event_changes_nothing() -> None:
    core = batcher()
    ended = request()
    (start, _) = core.on_arrival(ended, NOW)
    assert isinstance(start, StartBatch)
    core.on_batch_end(start.batch, NOW)
    before = core.statistics()

    with pytest.raises(IllegalTransitionError):
        core.on_cancel(ended, NOW)
    with pytest.raises(IllegalTransitionError):
        core.on_arrival(ended, NOW)
    with pytest.raises(IllegalTransitionError, match="not running"):
        core.on_batch_end(start.batch, NOW)
    with pytest.raises(ValueError, match="at least 1 row, found 0"):
        core.on_arrival(request(rows=0), NOW)

    assert core.statistics() == before
    assert ended.state is State.ANSWERED


def test_a_batch_that_was_never_started_cannot_end() -> None:
    with pytest.raises(IllegalTransitionError):
        batcher().on_batch_end(Batch([], 0, "free"), NOW)


@pytest.mark.field_fault("S-38")
def test_a_full_queue_refuses_and_a_request_alone_above_the_limit_too() -> None:
    core = batcher()
    (rejected, *rest) = core.on_arrival(request(rows=3), NOW)
    assert isinstance(rejected, Reject)
    assert (rejected.code, rejected.rows_ahead, rest) == ("queue_full", 0, [])

    core.on_arrival(request(), NOW)  # runs
    assert core.on_arrival(request(rows=2), NOW) == []  # waits
    (rejected,) = core.on_arrival(request(), NOW)
    assert isinstance(rejected, Reject)
    assert (rejected.code, rejected.rows_ahead) == ("queue_full", 2)
    assert core.statistics().rejected_by_code["queue_full"] == 2
    assert core.statistics().rejected_by_code["draining"] == 0
