import numpy as np
import pytest

from tidegate.units import ms_to_ns
from tidegate_loadtest.replay.result import ReplayResult
from tidegate_loadtest.replay.traffic import Log


def test_late_answers_count_from_when_they_were_due_and_a_late_client_says_so() -> None:
    at_ns = np.arange(100, dtype=np.int64) * ms_to_ns(10)
    log = Log.begin(at_ns)
    log.sent_ns[:] = at_ns + ms_to_ns(1)
    log.ended_ns[:] = at_ns + ms_to_ns(8)
    log.status[:] = 200
    on_time = ReplayResult.of(log, objective_ns=ms_to_ns(8))
    assert (on_time.in_objective, on_time.p50_ms, on_time.is_valid) == (100, 8.0, True)
    log.sent_ns[:2] += ms_to_ns(5)
    log.ended_ns[:2] += ms_to_ns(5)
    late = ReplayResult.of(log, objective_ns=ms_to_ns(8))
    assert (late.in_objective, late.late, late.late_sends, late.is_valid) == (98, 2, 2, False)
    assert late.missed_ratio == pytest.approx(0.02)
