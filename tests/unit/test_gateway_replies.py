import orjson
import pytest

from tidegate.errors import BackendError, JobError, OverloadedError, TidegateError
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError
from tidegate.tensors import SignatureMismatchError
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_realtime.api.endings import ending_of_error, ending_of_outcome
from tidegate_realtime.api.error_map import STATUS_BY_CODE, STATUS_BY_FAMILY, status_of
from tidegate_realtime.api.errors import CallerLeftError, MethodNotAllowedError
from tidegate_realtime.api.replies import CONTENT_TYPE, Problem, Reply, problem_reply
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.core.commands import Reject
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.request import Request
from tidegate_realtime.runtime.outcomes import Cancelled, Expired, Failed, Rejected


def families() -> list[type[TidegateError]]:
    """Those that a gateway can meet: a client and a command have some of their own."""
    outside = ("tidegate.client", "tidegate.cli")
    found = TidegateError.__subclasses__()
    return [TidegateError, *(kind for kind in found if not kind.__module__.startswith(outside))]


def test_every_family_of_errors_has_a_status() -> None:
    assert set(STATUS_BY_FAMILY) == set(families())


@pytest.mark.parametrize("family", families())
def test_an_error_without_a_row_gets_the_status_of_its_family(family: type[TidegateError]) -> None:
    unknown = type("UnknownError", (family,), {"code": "quite_new"})
    assert status_of(unknown("x")) == STATUS_BY_FAMILY[family]


def errors_of_the_edge() -> list[type[TidegateError]]:
    """Every error that a request can meet: of the wire, the signature, the runtime and the edge."""

    def below(kind: type[TidegateError]) -> list[type[TidegateError]]:
        return [kind, *(child for direct in kind.__subclasses__() for child in below(direct))]

    places = (
        *("tidegate.errors", "tidegate.oip", "tidegate.tensors", "tidegate.inference"),
        "tidegate_realtime",
    )
    found = [kind for kind in below(TidegateError) if kind.__module__.startswith(places)]
    return [kind for kind in found if kind is not JobError]  # those are of files


@pytest.mark.parametrize("kind", errors_of_the_edge())
def test_every_code_of_the_edge_has_a_row(kind: type[TidegateError]) -> None:
    assert kind.code in STATUS_BY_CODE


def body(reply: Reply) -> dict[str, object]:
    content: dict[str, object] = orjson.loads(reply.body)
    return content


def test_a_refusal_has_the_one_body() -> None:
    error = SignatureMismatchError.of_input("x", expected="FP32", found="INT8")
    reply = problem_reply(Problem.of_error(error), request_id="r-1")
    assert reply.status == 422
    assert reply.headers == [CONTENT_TYPE, ("x-request-id", "r-1")]
    assert CONTENT_TYPE == ("content-type", "application/json")
    assert body(reply) == {
        "error": "Input 'x': expected FP32, found INT8.",
        "code": "signature_mismatch",
        "request_id": "r-1",
        "details": {"input": "x", "expected": "FP32", "found": "INT8"},
    }


def test_a_wrong_method_is_told_the_right_ones() -> None:
    error = MethodNotAllowedError.of("PUT", allow=["GET", "HEAD"])
    reply = problem_reply(Problem.of_error(error), request_id="r-1")
    assert ("allow", "GET, HEAD") in reply.headers


@pytest.mark.parametrize(
    ("draw", "retry_after_ms", "seconds"), [(0.0, 3200, "4"), (0.5, 4000, "4"), (1.0, 4800, "5")]
)
def test_a_full_queue_says_when_to_come_back_and_not_to_everybody_the_same(
    draw: float, retry_after_ms: int, seconds: str
) -> None:
    rejected = Rejected(code="queue_full", message="full", retry_after_ms=4000)
    ending = ending_of_outcome(rejected, lambda: draw)
    assert isinstance(ending.answer, Problem)
    reply = problem_reply(ending.answer, request_id="r")
    assert reply.status == 503
    assert ("retry-after", seconds) in reply.headers
    assert body(reply)["details"] == {"retry_after_ms": retry_after_ms}


def unreachable(*, predicted_ms: float, retry_after_ms: float) -> Rejected:
    """Return the refusal of a request that allows 200 ms behind 12 rows."""
    request = Request(1, (), Nanoseconds(0), ms_to_ns(200))
    predicted_ns, again_ns = ms_to_ns(predicted_ms), ms_to_ns(retry_after_ms)
    reject = Reject(request, "deadline_unreachable", 12, predicted_ns, again_ns)
    return Rejected.of(reject, BatchLimits(), model="risk@7")


@pytest.mark.parametrize(("draw", "after_ms"), [(0.0, 20), (0.37, 24), (1.0, 30)])
def test_a_refusal_says_one_time_to_come_back_in_words_and_in_figures(
    draw: float, after_ms: int
) -> None:
    refused = unreachable(predicted_ms=225, retry_after_ms=25)
    ending = ending_of_outcome(refused, lambda: draw)
    assert isinstance(ending.answer, Problem)
    told = body(problem_reply(ending.answer, request_id="r"))
    assert told["error"] == (
        "risk@7 needs about 225.0 ms (12 rows are ahead), but the request allows 200.0 ms. Retry "
        f"after {after_ms} ms, send a longer Tidegate-Deadline-Ms, or submit an offline job if "
        "nobody is waiting."
    )
    assert told["details"] == {
        "predicted_ms": 225.0,
        "slo_ms": 200.0,
        "rows_ahead": 12,
        "retry_after_ms": after_ms,
    }


@pytest.mark.parametrize(("predicted_ms", "spare_ms"), [(180, "45.0"), (200.04, "25.0")])
def test_who_is_refused_for_the_margin_is_told_how_large_it_is(
    predicted_ms: float, spare_ms: str
) -> None:
    refused = unreachable(predicted_ms=predicted_ms, retry_after_ms=25)
    assert refused.message == (
        f"risk@7 needs about {predicted_ms:.1f} ms (12 rows are ahead) and {spare_ms} ms to spare, "
        "for surprises and for who waits already, but the request allows 200.0 ms."
    )


@pytest.mark.field_fault("S-37", "S-44")
def test_an_expired_request_says_how_long_it_waited_and_ran_and_what_the_limit_was() -> None:
    expired = Expired(
        queued_ns=Nanoseconds(80_000_000),
        executed_ns=Nanoseconds(20_500_000),
        limit_ns=Nanoseconds(100_000_000),
    )
    ending = ending_of_outcome(expired, lambda: 0.5)
    assert isinstance(ending.answer, Problem)
    assert ending.answer.status == 504
    assert ending.answer.details == {"queued_ms": 80.0, "executed_ms": 20.5, "limit_ms": 100.0}
    assert "100.0 ms" in ending.answer.message


@pytest.mark.parametrize("kind", [OutOfMemoryError, DeviceLostError])
def test_a_machine_that_fails_the_model_is_told_by_its_own_code(kind: type[BackendError]) -> None:
    ending = ending_of_outcome(Failed(error=kind("CUDA failure 2: out of memory")), lambda: 0.5)
    assert isinstance(ending.answer, Problem)
    assert (ending.outcome, ending.reason) == ("failed", kind.code)
    assert ending.answer.status == 500
    assert "CUDA" not in ending.answer.message


def test_a_failure_of_a_kind_without_a_row_is_still_told() -> None:
    unknown = type("UnknownError", (BackendError,), {"code": "quite_new"})
    ending = ending_of_outcome(Failed(error=unknown("x")), lambda: 0.5)
    assert isinstance(ending.answer, Problem)
    assert (ending.answer.status, ending.reason) == (500, "quite_new")


@pytest.mark.field_fault("P-15")
def test_what_a_runtime_says_of_itself_stays_inside() -> None:
    error = BackendError("node /model/Gather in /onnxruntime_src/core/gather.cc:42 failed")
    ending = ending_of_outcome(Failed(error=error), lambda: 0.5)
    assert isinstance(ending.answer, Problem)
    assert (ending.answer.status, ending.reason) == (500, "model_failed")
    assert "/" not in ending.answer.message


def test_a_caller_who_left_is_counted_and_never_answered() -> None:
    for ending in (
        ending_of_outcome(Cancelled(), lambda: 0.5),
        ending_of_error(CallerLeftError("gone"), lambda: 0.5),
    ):
        assert (ending.outcome, ending.reason) == ("cancelled", "caller_left")


def test_overload_is_rejected_and_a_bug_of_ours_is_failed() -> None:
    assert ending_of_error(OverloadedError("x"), lambda: 0.5).outcome == "rejected"
    assert ending_of_error(TidegateError("x"), lambda: 0.5).outcome == "failed"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a", True),
        ("A.b_c:d-9", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("a b", False),
        ("a\r\nSet-Cookie: x", False),
        ("é", False),
        (None, False),
    ],
)
def test_a_request_id_is_kept_if_it_may_stand_in_a_header(given: str | None, kept: bool) -> None:
    ids = RequestIds("p")
    assert ids.choose(given) == (given if kept else "p-1")


def test_ids_made_here_differ_and_the_first_usable_candidate_wins() -> None:
    ids = RequestIds("p")
    assert [ids.choose(), ids.choose("b d", "c"), ids.choose("a", "c"), ids.choose()] == [
        "p-1",
        "c",
        "a",
        "p-2",
    ]
