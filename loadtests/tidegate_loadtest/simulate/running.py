"""Runs of one policy: a single one, and the search for the highest rate that it can take."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from tidegate.clock.system import SystemClock
from tidegate.units import ns_to_seconds
from tidegate_loadtest.arrivals.port import Arrivals, Instants, Span
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.policies.building import OURS, Situation, build_policy
from tidegate_loadtest.simulate.recording import Recording
from tidegate_loadtest.simulate.requests import requests_at
from tidegate_loadtest.simulate.result import SimulationResult
from tidegate_loadtest.simulate.simulator import Mishap, Simulator
from tidegate_realtime.core.request import Request

PRECISION: Final = 0.005
"""Of a capacity, relative: what 100,000 requests can tell apart at a share of 0.99."""
LOWEST_SCALE: Final = 2.0**-20
"""Where the search gives up: a millionth of the rate that was typed."""

Watch: TypeAlias = Callable[[Iterator[Request], int], Iterable[Request]]
"""Looks at requests while they pass, and knows how many there are: to show progress."""

Run: TypeAlias = tuple[SimulationResult, Recording]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """All of a run but its policy and its rate."""

    situation: Situation
    arrivals: Arrivals
    span: Span
    seed: int
    fail_ratio: float = 0.0
    """Share of the model calls that fail."""


def run_policy(
    policy: str, at_ns: Instants, experiment: Experiment, *, watch: Watch | None = None
) -> Run:
    """Simulate one policy on a list of instants.

    Raises:
        SettingError: There is no such policy, or the profile does not reach as far as it wants.
    """
    situation = experiment.situation
    is_best_effort = situation.best_effort and policy == OURS
    simulator = Simulator(
        build_policy(policy, situation),
        PaddedExecution(situation.profile, seed=experiment.seed),
        executors=situation.executors,
        mishap=_mishap(experiment),
    )
    clock = SystemClock()
    began_ns = clock.now_ns()
    requests = requests_at(
        at_ns,
        objective_ns=situation.ours_ns if is_best_effort else situation.objective_ns,
        sheddable=not is_best_effort,
    )
    with without_collector():
        recording = simulator.run(watch(requests, at_ns.size) if watch else requests)
    took_s = ns_to_seconds(max(1, clock.now_ns() - began_ns))
    if is_best_effort:
        recording.judge_by(situation.objective_ns)
    result = SimulationResult.of(
        recording, policy=policy, executors=situation.executors, simulated_in_s=took_s
    )
    return result, recording


def _mishap(experiment: Experiment) -> Mishap | None:
    """Let calls fail by dice of their own: how long the others take does not depend on it."""
    share = experiment.fail_ratio
    draw = Random(f"failures {experiment.seed}").random
    return (lambda _: draw() < share) if share else None


@contextmanager
def without_collector() -> Iterator[None]:
    """Spare the search for cycles among millions of objects that form none: 1.5 times as fast."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def find_capacity(
    policy: str, experiment: Experiment, *, share: float, watch: Watch | None = None
) -> Run | None:
    """Find the highest rate at which at least ``share`` of all arrivals is answered in time.

    The same random numbers at every rate, only closer together. Doubles or halves until the
    answer lies between two rates, then bisects to half a percent.

    Returns:
        The run at that rate; ``None`` if no rate is low enough.
    """

    def run(scale: float) -> Run:
        at_ns = experiment.arrivals.draw(experiment.span, seed=experiment.seed, scale=scale)
        return run_policy(policy, at_ns, experiment, watch=watch)

    def holds(found: Run) -> bool:
        return found[0].in_objective_ratio >= share

    scale, found = 1.0, run(1.0)
    while not holds(found):
        scale /= 2
        if scale < LOWEST_SCALE:
            return None
        found = run(scale)
    above = 2 * scale
    while holds(higher := run(above)):
        scale, above, found = above, 2 * above, higher
    while above / scale > 1 + PRECISION:
        middle = (scale * above) ** 0.5
        tried = run(middle)
        if holds(tried):
            scale, found = middle, tried
        else:
            above = middle
    return found
