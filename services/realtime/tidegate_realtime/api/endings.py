"""How a prediction ended: the label it is counted under, and what the caller gets."""

from collections.abc import Callable
from typing import Final, TypeAlias, assert_never

import msgspec

from tidegate.errors import BackendError, OverloadedError, RequestRejectedError, TidegateError
from tidegate.units import ns_to_ms
from tidegate_realtime.api.error_map import STATUS_BY_CODE, status_of
from tidegate_realtime.api.errors import CallerLeftError
from tidegate_realtime.api.metrics import OutcomeLabel
from tidegate_realtime.api.poison import PoisonInputError
from tidegate_realtime.api.quotas import QuotaExceededError
from tidegate_realtime.api.replies import Problem
from tidegate_realtime.runtime.outcomes import Cancelled, Expired, Failed, Rejected

Draw = Callable[[], float]
"""Uniform in 0…1."""
Unanswered: TypeAlias = Rejected | Expired | Cancelled | Failed

_JITTER: Final = 0.2
_DECIMALS: Final = 3
"""Of milliseconds: a forecast is not better than that."""
_RETRY_ELSEWHERE_MS: Final = 1_000.0
"""While this process ends another one answers, as soon as the load balancer has noticed."""


class Ending(msgspec.Struct, frozen=True):
    """One ending of one request."""

    outcome: OutcomeLabel
    answer: bytes | Problem

    @property
    def reason(self) -> str:
        """The code of a refusal; empty for an answer."""
        return self.answer.code if isinstance(self.answer, Problem) else ""


CALLER_LEFT: Final = Ending(
    OutcomeLabel.CANCELLED, Problem.of_error(CallerLeftError("The caller left."))
)
BUG: Final = Ending(OutcomeLabel.FAILED, Problem.of_bug())


def ending_of_error(error: TidegateError, draw: Draw) -> Ending:
    """Say how a request ends that was stopped by an error."""
    match error:
        case CallerLeftError():
            return CALLER_LEFT
        case OverloadedError():
            retry_after_ms = _with_jitter(_RETRY_ELSEWHERE_MS, draw)
            problem = Problem.of_error(error, retry_after_ms=retry_after_ms)
            return Ending(OutcomeLabel.REJECTED, problem)
        case QuotaExceededError():  # the exact time, without jitter: it is nobody else's
            problem = Problem.of_error(error, retry_after_ms=error.retry_after_ms)
            return Ending(OutcomeLabel.REJECTED, problem)
        case PoisonInputError():
            return Ending(OutcomeLabel.FAILED, Problem.of_error(error))
        case RequestRejectedError():
            return Ending(OutcomeLabel.REJECTED, Problem.of_error(error))
        case _:
            return Ending(OutcomeLabel.FAILED, Problem.of_error(error))


def ending_of_outcome(outcome: Unanswered, draw: Draw) -> Ending:
    """Say how a request ends that the scheduler did not answer."""
    match outcome:
        case Rejected():
            return Ending(OutcomeLabel.REJECTED, _rejected(outcome, draw))
        case Expired():
            return Ending(OutcomeLabel.EXPIRED, _expired(outcome))
        case Cancelled():
            return CALLER_LEFT
        case Failed():
            return Ending(OutcomeLabel.FAILED, _failed(outcome.error))
        case _:
            assert_never(outcome)


def _rejected(rejected: Rejected, draw: Draw) -> Problem:
    retry_after_ms = _with_jitter(rejected.retry_after_ms, draw)
    message = rejected.message
    if rejected.code == "deadline_unreachable":
        message += (
            f" Retry after {retry_after_ms} ms, send a longer Tidegate-Deadline-Ms, "
            "or submit an offline job if nobody is waiting."
        )
    return Problem(
        status=STATUS_BY_CODE[rejected.code],
        code=rejected.code,
        message=message,
        details=_figures(rejected),
        retry_after_ms=retry_after_ms,
    )


def _figures(rejected: Rejected) -> dict[str, object]:
    """Tell what admission has reckoned with, where it has."""
    if rejected.predicted_ms is None or rejected.slo_ms is None:
        return {}
    return {
        "predicted_ms": round(rejected.predicted_ms, _DECIMALS),
        "slo_ms": round(rejected.slo_ms, _DECIMALS),
        "rows_ahead": rejected.rows_ahead,
    }


def _expired(expired: Expired) -> Problem:
    queued_ms, executed_ms = ns_to_ms(expired.queued_ns), ns_to_ms(expired.executed_ns)
    limit_ms = ns_to_ms(expired.limit_ns)
    where = (
        f"it waited {queued_ms:.1f} ms for the model and was {executed_ms:.1f} ms in it"
        if expired.is_read
        else "its texts or images were still to be decoded"
    )
    return Problem(
        status=STATUS_BY_CODE["deadline_expired"],
        code="deadline_expired",
        message=f"Not answered within {limit_ms:.1f} ms: {where}.",
        details={"queued_ms": queued_ms, "executed_ms": executed_ms, "limit_ms": limit_ms},
    )


def _failed(error: BackendError) -> Problem:
    """Keep to ourselves what the runtime said, which may name files and nodes of the model."""
    return Problem(
        status=status_of(error),
        code=error.code,
        message="The model failed on the batch that this request was in; the server's log has its "
        "reason.",
    )


def _with_jitter(retry_after_ms: float, draw: Draw) -> int:
    """Return whole milliseconds: what is said in words is what stands in the details."""
    return round(retry_after_ms * (1 - _JITTER + 2 * _JITTER * draw()))
