"""Every policy on every curve and every bundled profile: the table of ``docs/scheduling.md``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tidegate.profiles import load_profile
from tidegate_loadtest.arrivals.curve import CurveArrivals
from tidegate_loadtest.arrivals.files import load_curve
from tidegate_loadtest.arrivals.port import Span
from tidegate_loadtest.proof.setting import Setting
from tidegate_loadtest.simulate.policies.building import ALL
from tidegate_loadtest.simulate.result import SimulationResult
from tidegate_loadtest.simulate.running import Experiment, run_policy

OBJECTIVES_MS: Final[Mapping[str, float]] = {
    "cpu-sklearn-kernel-svm": 25,
    "cpu-sklearn-linear-svm": 20,  # Clipper's objective
    "cpu-sklearn-random-forest": 20,  # likewise
    "cpu1-resnet50": 1_000,
    "cpu16-bert": 100,
    "gtx1080ti-resnet50": 25,  # Symphony's
    "k80-resnet50": 100,
    "p4-resnet50-int8": 15,
    "titanx-vgg-s": 50,
    "titanx-vgg16": 100,  # Nexus'
    "titanx-yolo9000": 150,
    "v100-resnet50": 10,
    "v100-resnet50-clockwork": 25,
}
"""A few times what one row takes. Published objectives where there are any; a profile that is not
here gets four times its single call."""
TIMES_ALONE: Final = 4
PEAK: Final = 1.5
"""The highest rate of each curve, in capacities: every curve that moves crosses 1."""
FLAT_PEAK: Final = 0.9
"""Of the curve that does not move: the control, near what can be carried."""
REQUESTS: Final = 20_000
"""Of each run, by the length of the curve: a p99 rests on 200 of them."""
SHORTEST_S: Final = 10.0
"""A curve must last longer than what the scheduler remembers of the rate, whatever it sends."""
TIE: Final = 0.005
"""Goodputs closer than this are alike: another seed would exchange them."""

FAITHFUL: Final = 0.01
"""Most that a policy may miss of what it accepted and still be said to keep its word."""

Place = Literal["wins", "ties", "loses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One curve and one profile: the gateway's scheduler beside the best of the others."""

    curve: str
    profile: str
    slo_ms: float
    ours: SimulationResult
    other: SimulationResult
    """Of the other policies the one with the highest goodput; of those alike the lowest p99."""

    @property
    def ratio(self) -> float:
        """Goodput, ours by theirs."""
        return self.ours.goodput_rps / self.other.goodput_rps

    @property
    def place(self) -> Place:
        """Compare goodput first and, where that is alike, p99."""
        if abs(self.ratio - 1) > TIE:
            return "wins" if self.ratio > 1 else "loses"
        ours_ms, other_ms = self.ours.p99_ms or 0.0, self.other.p99_ms or 0.0
        if abs(ours_ms / other_ms - 1) <= TIE:
            return "ties"
        return "wins" if ours_ms < other_ms else "loses"


def setting_of(profile: str) -> Setting:
    """Give a profile its objective."""
    loaded = load_profile(profile)
    alone_ms = loaded.mean_ns(1) / 1e6
    return Setting(
        name=profile,
        profile=loaded,
        slo_ms=OBJECTIVES_MS.get(profile, TIMES_ALONE * alone_ms),
    )


def compare(
    curves: Sequence[Path], profiles: Sequence[str], *, requests: int = REQUESTS
) -> Iterator[Row]:
    """Simulate every policy on each, in turn: minutes in all."""
    for profile in profiles:
        setting = setting_of(profile)
        for curve in curves:
            yield compare_one(curve, setting, requests=requests)


def compare_one(curve: Path, setting: Setting, *, requests: int = REQUESTS) -> Row:
    """Simulate every policy on one curve, shortened and scaled to the profile."""
    experiment = Experiment(
        situation=setting.situation,
        arrivals=fitted(load_curve(curve), setting.capacity_rps, requests=requests),
        span=Span(),
        seed=1,
    )
    at_ns = experiment.arrivals.draw(experiment.span, seed=experiment.seed)
    results = {policy: run_policy(policy, at_ns, experiment)[0] for policy in ALL}
    ours = results.pop("slo")
    return Row(
        curve=curve.stem,
        profile=setting.name,
        slo_ms=setting.slo_ms,
        ours=ours,
        other=_best(list(results.values())),
    )


def _best(results: Sequence[SimulationResult]) -> SimulationResult:
    best_rps = max(result.goodput_rps for result in results)
    alike = [each for each in results if each.goodput_rps >= best_rps * (1 - TIE)]
    return min(alike, key=lambda result: result.p99_ms or 0.0)


def fitted(arrivals: CurveArrivals, capacity_rps: float, *, requests: int) -> CurveArrivals:
    """Scale a curve to a capacity, and shorten it to so many requests."""
    curve, rates_rps = arrivals.curve, arrivals.curve.rates_rps
    peak = FLAT_PEAK if rates_rps.min() == rates_rps.max() else PEAK
    scaled = type(curve)(
        times_s=curve.times_s, rates_rps=rates_rps * (peak * capacity_rps / rates_rps.max())
    )
    mean_rps = float(scaled.expected[-1]) / scaled.duration_s
    lasting = scaled.lasting(max(SHORTEST_S, requests / mean_rps))
    return CurveArrivals(curve=lasting, gaps=arrivals.gaps)
