"""What a call says of itself, and how a refusal of it looks, without a channel."""

import grpc
import orjson
import pytest

from tests.fakes.grpc_context import FakeContext
from tidegate.oip.errors import BadOptionError
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.api.grpc.calls import Call
from tidegate_realtime.api.replies import Problem


def call(left_s: float | None = None, *metadata: tuple[str, str | bytes]) -> Call:
    context = FakeContext(metadata=metadata, left_s=left_s)
    return Call(context.for_a_call(), began_at_ns=Nanoseconds(0))


def test_a_call_without_a_deadline_has_none() -> None:
    assert call().deadline() is None


@pytest.mark.field_fault("S-27")
@pytest.mark.parametrize(
    ("left_s", "header", "asked_ms", "said"),
    [
        (0.05, None, 50, "The call's deadline leaves 50 ms"),
        (0.05, "60", 50, "The call's deadline leaves 50 ms"),
        (0.05, "40", 40, "Tidegate-Deadline-Ms is 40 ms"),
        (None, "40", 40, "Tidegate-Deadline-Ms is 40 ms"),
        (0.0, None, 0, "The call's deadline leaves 0 ms"),
    ],
)
def test_the_shorter_of_both_deadlines_counts_and_is_named(
    left_s: float | None, header: str | None, asked_ms: int, said: str
) -> None:
    metadata = [] if header is None else [("tidegate-deadline-ms", header)]
    deadline = call(left_s, *metadata).deadline()
    assert deadline is not None
    assert (deadline.asked_ns, deadline.said) == (ms_to_ns(asked_ms), said)


def test_a_deadline_that_is_none_is_refused_even_beside_a_shorter_one() -> None:
    with pytest.raises(BadOptionError):
        call(0.001, ("tidegate-deadline-ms", "1 s")).deadline()


def test_binary_metadata_is_no_header() -> None:
    assert call(None, ("x-request-id", b"bytes")).header("x-request-id") is None


def test_a_refusal_tells_people_and_programs() -> None:
    context = FakeContext()
    problem = Problem(
        status=503,
        code="queue_full",
        message="Much is waiting.",
        details={"rows_ahead": 9},
        retry_after_ms=1_234.4,
    )
    refusing = Call(context.for_a_call(), began_at_ns=Nanoseconds(0))
    assert refusing.refuse(problem, request_id="r") == b""
    assert (context.status, context.sentence) == (grpc.StatusCode.UNAVAILABLE, "Much is waiting.")
    details = context.trailing.pop("tidegate-details-bin")
    assert orjson.loads(details) == {"rows_ahead": 9, "retry_after_ms": 1_234}
    assert context.trailing == {
        "tidegate-code": "queue_full",
        "x-request-id": "r",
        "grpc-retry-pushback-ms": "1234",
    }
