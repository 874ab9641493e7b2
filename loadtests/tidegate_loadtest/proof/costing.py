"""What deciding costs: Python per request, without the model and without HTTP."""

from collections.abc import Sequence
from typing import Final

from tidegate.clock.system import SystemClock
from tidegate.profiles import load_profile
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_loadtest.proof.setting import Setting, build_batcher
from tidegate_loadtest.proof.targets import Line
from tidegate_realtime.core.commands import Batch, Command, StartBatch
from tidegate_realtime.core.request import Request

BATCHES: Final = 1_000
ARRIVING: Final = 24
"""Requests that arrive during each batch: a load of 90 %."""
_SETTING: Final = Setting(name="cost", profile=load_profile("gtx1080ti-resnet50"), slo_ms=100.0)


def cost_lines() -> Sequence[Line]:
    """Measure an arrival behind all others, and one before all others."""
    return [
        Line(
            where="simulated",
            what="Python per appended request",
            unit="us",
            high=4.0,
            figure=_arrival_us(earlier_by_ns=0),
        ),
        Line(
            where="simulated",
            what="Python per request inserted before the others",
            unit="us",
            high=40.0,
            figure=_arrival_us(earlier_by_ns=ms_to_ns(0.1)),
        ),
    ]


def _arrival_us(*, earlier_by_ns: int) -> float:
    """Time ``on_arrival`` while one batch after the other runs.

    Args:
        earlier_by_ns: By how much each deadline is earlier than the one before it.
    """
    batcher, clock = build_batcher(_SETTING), SystemClock()
    now_ns, spent_ns = Nanoseconds(0), 0
    batch = _started(batcher.on_arrival(_request(now_ns, _SETTING.objective_ns), now_ns))
    for _ in range(BATCHES):
        requests = [
            _request(now_ns + place, _SETTING.objective_ns - place * (earlier_by_ns + 1))
            for place in range(ARRIVING)
        ]
        began_ns = clock.now_ns()
        for request in requests:
            batcher.on_arrival(request, request.arrived_at_ns)
        spent_ns += clock.now_ns() - began_ns
        now_ns = Nanoseconds(batch.started_at_ns + _SETTING.profile.mean_ns(batch.rows))
        batch = _started(batcher.on_batch_end(batch, now_ns))
    assert not any(batcher.statistics().rejected_by_code.values()), "measured refusals instead"
    return spent_ns / (BATCHES * ARRIVING) / ms_to_ns(0.001)


def _request(at_ns: int, budget_ns: int) -> Request:
    return Request(1, None, Nanoseconds(at_ns), Nanoseconds(at_ns + budget_ns))


def _started(commands: Sequence[Command]) -> Batch:
    return next(command.batch for command in commands if isinstance(command, StartBatch))
