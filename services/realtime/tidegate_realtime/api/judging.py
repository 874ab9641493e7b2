"""Which requests count for the objective, and which of these kept it.

What the caller ended does not count: one that left, or asked for what cannot be. Nor does one that
allowed less time than the objective, so that nobody uses the budget up by asking for the
impossible; one that allowed more is judged by that. Everything else counts, refusals too: a caller
who is sent away quickly has no answer.
"""

from typing import Final

from tidegate_realtime.api.endings import Ending
from tidegate_realtime.api.metrics import OutcomeLabel
from tidegate_realtime.api.replies import Problem

_ANSWERED: Final = OutcomeLabel.ANSWERED
"""A local name, because looking a member up in its class takes four times as long."""


def kept_objective(
    ending: Ending, *, took_ns: int, allowed_ns: int | None, slo_ns: int
) -> bool | None:
    """Say whether a request was answered in time; ``None``: it does not count for the objective.

    Args:
        ending: How it ended.
        took_ns: From its last byte to its end.
        allowed_ns: From its last byte to its deadline; ``None`` if it ended before that was known.
        slo_ns: The objective of the version that was to answer.
    """
    if allowed_ns is not None and allowed_ns < slo_ns:
        return None
    if ending.outcome is _ANSWERED:
        return took_ns <= (allowed_ns or slo_ns)
    return None if _is_callers(ending) else False


def _is_callers(ending: Ending) -> bool:
    """Whether the caller is to blame; a row that makes the model fail may be the model's fault."""
    match ending.outcome:
        case OutcomeLabel.CANCELLED:
            return True
        case OutcomeLabel.REJECTED:
            return isinstance(ending.answer, Problem) and ending.answer.status < 500  # noqa: PLR2004 - HTTP
        case _:
            return False
