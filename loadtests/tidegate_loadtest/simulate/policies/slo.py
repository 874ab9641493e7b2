"""The gateway's own scheduler: the one place here where it is built."""

from random import Random
from typing import Final

from tidegate.profiles import LatencyProfile, ProfileSampler
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.cap import Infeasible
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.sweep import POWERS_OF_TWO, Sweep, SweepLimits

PERCENTILE: Final = 0.99
SEED: Final = 1
"""Of the warm-up alone: its dice are not those of the run, whatever seed that has."""


def build_slo(
    profile: LatencyProfile, *, executors: int, objective_ns: Nanoseconds
) -> MicroBatcher:
    """Build ``MicroBatcher`` as the gateway would for a model that behaves like the profile."""
    return MicroBatcher(
        executors=executors,
        limits=BatchLimits().lowered_to(profile.largest_size),
        model=_warmed_up(profile, objective_ns),
        objective_ns=objective_ns,
    )


def shortfall(
    profile: LatencyProfile, *, executors: int, objective_ns: Nanoseconds
) -> Infeasible | None:
    """Say why the gateway would refuse to start with such a model; ``None`` if it would not."""
    cap = build_slo(profile, executors=executors, objective_ns=objective_ns).pace.cap
    return cap if isinstance(cap, Infeasible) else None


def _warmed_up(profile: LatencyProfile, objective_ns: Nanoseconds) -> LatencyModel:
    """Let the latency model see the sweep that comes before ready; the run begins after it."""
    sampler = ProfileSampler(profile, Random(SEED))
    model = LatencyModel(percentile=PERCENTILE, sizes=profile.allowed_sizes)
    limits = SweepLimits(
        budget_ns=NS_PER_SECOND,
        sizes=profile.allowed_sizes or POWERS_OF_TWO,
        objective_ns=objective_ns,
    )
    sweep, took_ns = Sweep(limits, now_ns=0), 0
    while (rows := sweep.next_rows(took_ns)) is not None:
        run_ns = sampler.draw_ns(rows, 0)
        took_ns += run_ns
        sweep.on_run(rows, run_ns, took_ns)
    for rows, runs_ns in sweep.runs.items():
        for run_ns in runs_ns:
            model.observe(rows, run_ns, Nanoseconds(0))
    return model
