"""Which requests count for the objective, and which of these kept it."""

import pytest

from tidegate_realtime.api.endings import BUG, CALLER_LEFT, Ending
from tidegate_realtime.api.judging import kept_objective
from tidegate_realtime.api.metrics import OutcomeLabel
from tidegate_realtime.api.replies import Problem

SLO_NS = 50
ANSWERED = Ending(OutcomeLabel.ANSWERED, b"")


def ended(outcome: OutcomeLabel, status: int) -> Ending:
    return Ending(outcome, Problem(status=status, code="any", message="Any."))


REFUSED = ended(OutcomeLabel.REJECTED, 503)


@pytest.mark.parametrize(
    ("ending", "took_ns", "allowed_ns", "kept"),
    [
        (ANSWERED, 50, 50, True),
        (ANSWERED, 51, 50, False),
        (ANSWERED, 51, 90, True),
        (ANSWERED, 91, 90, False),
        (ANSWERED, 10, 49, None),
        (ended(OutcomeLabel.EXPIRED, 504), 50, 50, False),
        (ended(OutcomeLabel.EXPIRED, 504), 20, 20, None),
        (REFUSED, 1, 50, False),
        (REFUSED, 1, 20, None),
        (REFUSED, 1, None, False),
        (ended(OutcomeLabel.REJECTED, 400), 1, None, None),
        (ended(OutcomeLabel.REJECTED, 429), 1, 50, None),
        (ended(OutcomeLabel.FAILED, 422), 9, 50, False),
        (BUG, 9, None, False),
        (CALLER_LEFT, 9, 50, None),
    ],
)
def test_the_callers_own_endings_do_not_count_and_a_longer_deadline_is_what_one_is_judged_by(
    ending: Ending, took_ns: int, allowed_ns: int | None, kept: bool | None
) -> None:
    found = kept_objective(ending, took_ns=took_ns, allowed_ns=allowed_ns, slo_ns=SLO_NS)
    assert found is kept
