"""The targets in the simulator, with what only the simulator can see of each decision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tidegate.clock.system import SystemClock
from tidegate.units import NS_PER_SECOND, Nanoseconds, ns_to_seconds
from tidegate_loadtest.arrivals.port import Instants
from tidegate_loadtest.proof.setting import LOADS, SLOW_FROM_S, SLOW_UNTIL_S, Setting, build_batcher
from tidegate_loadtest.proof.targets import Line, Promises, goodput_lines, promise_lines, share
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.recording import Recording
from tidegate_loadtest.simulate.result import SimulationResult
from tidegate_loadtest.simulate.running import without_collector
from tidegate_loadtest.simulate.simulator import Simulator
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request

WHERE: Final = "simulated"
REQUESTS: Final = 100_000
"""Of each load: a share of 1 % rests on a thousand of them."""
SPEED_LOAD: Final = 0.9
SPEED_RPS: Final = 200_000
RECOVERED_S: Final = 3.0


class ObservedExecution:
    """Takes the times that a profile says, and notes what the scheduler expected of each."""

    def __init__(self, batcher: MicroBatcher, setting: Setting, *, seed: int) -> None:
        self.promised_ns: list[int] = []
        """L of each batch, when it started."""
        self.cap_rows: list[int] = []
        """b_slo at that moment: with more load batches are larger."""
        self._batcher = batcher
        self._execution = PaddedExecution(setting.profile, seed=seed)

    def draw_ns(self, rows: int, now_ns: int) -> int:
        """Draw one time."""
        pace = self._batcher.pace
        assert pace.model is not None
        self.promised_ns.append(pace.model.tail_ns(rows))
        self.cap_rows.append(pace.calm_rows)
        return self._execution.draw_ns(rows, now_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One run and what was expected in it."""

    result: SimulationResult
    recording: Recording = field(repr=False)
    covered: float
    """Share of batches that ended within L, as it was when they started."""
    cap_share: float
    """Rows in all batches, of the rows that the caps of their moments allowed."""


def simulate(setting: Setting, at_ns: Instants, *, seed: int = 1) -> Simulated:
    """Run the gateway's scheduler on a list of instants."""
    batcher = build_batcher(setting)
    execution = ObservedExecution(batcher, setting, seed=seed)
    simulator = Simulator(batcher, execution)
    clock = SystemClock()
    began_ns = clock.now_ns()
    with without_collector():
        recording = simulator.run(_requests(setting, at_ns))
    took_s = ns_to_seconds(clock.now_ns() - began_ns)
    result = SimulationResult.of(recording, policy="slo", executors=1, simulated_in_s=took_s)
    took_ns = np.asarray(recording.batch_took_ns)
    return Simulated(
        result=result,
        recording=recording,
        covered=float(np.mean(took_ns <= np.asarray(execution.promised_ns))),
        cap_share=sum(recording.batch_rows) / sum(execution.cap_rows),
    )


def _requests(setting: Setting, at_ns: Instants) -> Iterator[Request]:
    rows, objective_ns = setting.rows_per_request, setting.objective_ns
    for at in at_ns.tolist():
        yield Request(rows, None, at, Nanoseconds(at + objective_ns))


def simulate_loads(setting: Setting, *, requests: int = REQUESTS) -> Mapping[float, Simulated]:
    """Run every load."""
    return {
        load: simulate(setting, setting.arrivals(load, requests / (load * setting.capacity_rps)))
        for load in LOADS
    }


def load_lines(runs: Mapping[float, Simulated]) -> Sequence[Line]:
    """Hold what ``simulate_loads`` found to the targets."""
    lines: list[Line] = []
    rates_rps = {load: run.result.goodput_rps for load, run in runs.items()}
    for load, run in runs.items():
        result, at = run.result, f"at {load:g}x"
        lines += promise_lines(WHERE, load, _promises(run))
        if load > 1:
            idle, rows = result.idle_while_rows_wait, f"{result.mean_batch_rows:.1f} rows"
            lines += goodput_lines(WHERE, load, rates_rps)
            lines += [
                share(WHERE, f"executor idle while rows wait {at}", idle, high=0.02),
                share(
                    WHERE, f"rows in a batch, of b_slo, {at}", run.cap_share, low=0.95, note=rows
                ),
            ]
    return lines


def _promises(run: Simulated) -> Promises:
    result = run.result
    return Promises(
        covered=run.covered,
        missed=result.missed_ratio,
        refused=result.rejected / result.arrived,
        probes=result.probes,
        probes_in_time=result.probes_in_time,
    )


def slowdown_lines(setting: Setting, load: float) -> Sequence[Line]:
    """Let execution take twice as long for 20 s."""
    at_ns = setting.arrivals(load, SLOW_UNTIL_S + 15)
    run = simulate(setting.slowed(), at_ns)
    during = missed_between(run.recording, SLOW_FROM_S, SLOW_UNTIL_S)
    after = missed_between(run.recording, SLOW_UNTIL_S + RECOVERED_S, SLOW_UNTIL_S + 15)
    return [
        share(WHERE, f"missed while twice as slow, at {load:g}x", during, high=0.05),
        share(WHERE, f"missed from 3 s after it at {load:g}x", after, high=0.01),
    ]


def missed_between(recording: Recording, from_s: float, until_s: float) -> float:
    """Return the missed share of the accepted requests that arrived in a time."""
    ended_ns = np.asarray(recording.answered_ended_ns)
    late = ended_ns > np.asarray(recording.answered_deadline_ns)
    arrived_ns, expired_ns = (
        np.asarray(recording.answered_at_ns),
        np.asarray(recording.expired_at_ns),
    )
    bounds_ns = from_s * NS_PER_SECOND, until_s * NS_PER_SECOND
    answered = (arrived_ns >= bounds_ns[0]) & (arrived_ns < bounds_ns[1])
    expired = np.count_nonzero((expired_ns >= bounds_ns[0]) & (expired_ns < bounds_ns[1]))
    missed = np.count_nonzero(answered & late) + expired
    accepted = np.count_nonzero(answered) + expired
    return float(missed / accepted) if accepted else 0.0


def speed_line(setting: Setting, *, requests: int = 200_000) -> Line:
    """Simulate at 90 % of the capacity, as fast as one core can."""
    at_ns = setting.arrivals(SPEED_LOAD, requests / (SPEED_LOAD * setting.capacity_rps))
    run = simulate(setting, at_ns)
    return Line(
        where=WHERE,
        what=f"{setting.name}, requests simulated per second at {SPEED_LOAD:g}x",
        figure=run.result.simulated_requests_per_s,
        low=SPEED_RPS,
        unit="/s",
        note=f"{run.result.mean_batch_rows:.1f} rows in a batch; depends on what else runs here",
    )
