"""Whatever a gateway replies, and however long it takes: a call ends in time, after few tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.transports import ScriptedTransport, Turn, refused
from tidegate.client.answers import Prediction
from tidegate.client.calling import Caller, Retries
from tidegate.client.calls import Calls, Rows
from tidegate.client.errors import (
    ClientError,
    ConnectionFailedError,
    DeadlineExpiredError,
    ServerFaultError,
)
from tidegate.client.questions import Wishes
from tidegate.client.retrying import RetryPolicy
from tidegate.clock import ManualClock
from tidegate.units import ms_to_ns

LATE_STATUSES = [400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500, 502, 504]


def lost(*, worth_another_try: bool) -> ClientError:
    return ConnectionFailedError.of_cause(
        "http://fake", "reset", worth_another_try=worth_another_try
    )


milliseconds = st.floats(0, 500, allow_nan=False)
replies = st.one_of(
    st.builds(Turn, takes_ms=milliseconds),
    st.builds(
        lambda takes_ms, after: refused(503, "queue_full", takes_ms=takes_ms, retry_after_ms=after),
        milliseconds,
        st.one_of(
            st.floats(),  # Python's JSON has NaN and infinities, which no gateway may send
            st.integers(-(10**400), 10**400),
            st.text(max_size=3),
            st.none(),
        ),
    ),
    st.builds(
        lambda takes_ms, after: Turn(
            status=503, content="busy", takes_ms=takes_ms, headers={"retry-after": after}
        ),
        milliseconds,
        st.one_of(st.integers(-5, 10**12).map(str), st.sampled_from(["", "soon", "1.5", "٣"])),
    ),
    st.builds(
        lambda status: refused(status, "any", retry_after_ms=1), st.sampled_from(LATE_STATUSES)
    ),
    st.builds(
        lambda takes_ms, worth: Turn(
            takes_ms=takes_ms, fails=lambda: lost(worth_another_try=worth)
        ),
        milliseconds,
        st.booleans(),
    ),
    st.builds(lambda content: Turn(content=content), st.sampled_from([[], {}, None, "x", 1])),
)


class Called:
    """One call against a script, on a clock that only the fakes turn."""

    def __init__(
        self, turns: list[Turn], *, tries: int = 3, deadline_ms: float = 1_000.0, draw: float = 0.5
    ) -> None:
        self.clock = ManualClock()
        self.waits_ns: list[int] = []
        self.transport = ScriptedTransport(turns, self.clock)
        retries = Retries(policy=RetryPolicy(tries=tries), clock=self.clock, draw=lambda: draw)
        wishes = Wishes(deadline_ms=deadline_ms, request_id="r", headers={})
        call = Calls.of(None, 30_000).predict("risk", Rows(instances=[1]), wishes)
        self.answer: Prediction | None = None
        self.error: ClientError | None = None
        try:
            self.answer = Caller(self.transport, retries, sleep_ns=self._sleep_ns).call(call)
        except ClientError as error:
            self.error = error

    def _sleep_ns(self, duration_ns: int) -> None:
        self.waits_ns.append(duration_ns)
        self.clock.advance(duration_ns)

    @property
    def tries(self) -> int:
        return len(self.transport.requests)


@given(
    turns=st.lists(replies, min_size=8, max_size=8),
    tries=st.integers(1, 8),
    deadline_ms=st.floats(1, 2_000),
    draw=st.floats(0, 1),
)
def test_a_call_ends_by_its_deadline_after_a_bounded_number_of_tries(
    turns: list[Turn], tries: int, deadline_ms: float, draw: float
) -> None:
    called = Called(turns, tries=tries, deadline_ms=deadline_ms, draw=draw)
    assert called.clock.now_ns() <= ms_to_ns(deadline_ms)
    assert 1 <= called.tries <= tries
    assert (called.answer is None) != (called.error is None)
    if called.error is not None:
        assert called.error.tries == called.tries
        assert called.error.request_id == "r"
    left = called.transport.deadlines_ms()
    assert left == sorted(left, reverse=True)
    assert left[0] <= deadline_ms + 1


@pytest.mark.field_fault("S-41")
@given(draw=st.floats(0, 1), after_ms=st.floats(1, 400))
def test_nobody_comes_back_earlier_than_the_gateway_said(draw: float, after_ms: float) -> None:
    called = Called([refused(503, "queue_full", retry_after_ms=after_ms), Turn()], draw=draw)
    assert called.answer is not None
    assert called.answer.predictions == [1.5]
    (wait_ns,) = called.waits_ns
    assert ms_to_ns(after_ms) <= wait_ns <= ms_to_ns(after_ms * 1.25) + 1


@pytest.mark.parametrize("status", LATE_STATUSES)
def test_what_would_fail_again_is_not_sent_again(status: int) -> None:
    called = Called([refused(status, "any", retry_after_ms=1), Turn()])
    assert called.tries == 1
    assert called.error is not None
    assert called.error.status == status


def test_a_503_without_a_time_to_come_back_is_not_sent_again() -> None:
    assert Called([refused(503, "queue_full"), Turn()]).tries == 1


def test_whole_seconds_of_the_header_count_where_nothing_finer_is_said() -> None:
    turn = Turn(status=503, content="<html>", headers={"retry-after": "2"})
    called = Called([turn, Turn()], deadline_ms=5_000, draw=0.0)
    assert called.waits_ns == [ms_to_ns(2_000)]


def test_a_wait_that_would_outlast_the_deadline_is_not_begun() -> None:
    called = Called([refused(503, "deadline_unreachable", retry_after_ms=999.5), Turn()], draw=0.0)
    assert called.clock.now_ns() == 0
    assert called.error is not None
    assert called.error.code == "deadline_unreachable"


def test_a_lost_connection_is_tried_again_a_little_later_each_time() -> None:
    turn = Turn(fails=lambda: lost(worth_another_try=True))
    called = Called([turn] * 3, draw=1.0)
    assert called.waits_ns == [ms_to_ns(50), ms_to_ns(100)]
    assert isinstance(called.error, ConnectionFailedError)
    assert called.error.tries == 3


def test_a_connection_that_was_lost_within_a_reply_is_not_tried_again() -> None:
    called = Called([Turn(fails=lambda: lost(worth_another_try=False)), Turn()])
    assert called.tries == 1


def test_a_reply_that_takes_too_long_is_not_waited_for() -> None:
    called = Called([Turn(takes_ms=10_000)], deadline_ms=80)
    assert called.clock.now_ns() == ms_to_ns(80)
    assert isinstance(called.error, DeadlineExpiredError)
    assert "80 ms" in str(called.error)


def test_each_try_tells_the_gateway_how_much_is_left() -> None:
    turns = [refused(503, "queue_full", takes_ms=100, retry_after_ms=200)] * 3
    called = Called(turns, deadline_ms=1_000, draw=0.0)
    assert called.transport.deadlines_ms() == [1_000, 700, 400]


def test_a_reply_that_makes_no_sense_is_no_reason_to_ask_again() -> None:
    called = Called([Turn(content={"predictions": "many"}), Turn()])
    assert isinstance(called.error, ServerFaultError)
    assert called.tries == 1


@pytest.mark.parametrize("after_ms", [1e308, 10**400, -(10**400)])
def test_a_time_to_come_back_that_no_clock_reaches_ends_the_call(after_ms: float) -> None:
    called = Called([refused(503, "queue_full", retry_after_ms=after_ms), Turn()])
    assert called.tries == 1
    assert called.error is not None
    assert called.error.code == "queue_full"
