"""What is proved: a model, an objective, and loads as multiples of what the model can carry."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec

from tidegate.profiles import LatencyProfile, load_profile
from tidegate.profiles.laws import MeasuredSize, Table
from tidegate.profiles.profile import DriftStep, Noise
from tidegate.units import NS_PER_SECOND, Nanoseconds, ms_to_ns, ns_to_ms
from tidegate_loadtest.arrivals.port import Instants, Span
from tidegate_loadtest.arrivals.steady import SteadyArrivals
from tidegate_loadtest.simulate.policies.building import Situation
from tidegate_loadtest.simulate.policies.slo import build_slo
from tidegate_realtime.core.cap import Cap
from tidegate_realtime.core.micro_batcher import MicroBatcher

LOADS: Final = (0.5, 0.9, 1.5, 2.0, 4.0)
LARGEST_ROWS: Final = 32
"""Of the published law; it takes longer than the objective."""
SLOW_FROM_S, SLOW_UNTIL_S = 10.0, 30.0
"""When the model that becomes slow is slow; 20 s."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model and its objective."""

    name: str
    profile: LatencyProfile
    slo_ms: float
    rows_per_request: int = 1

    @property
    def objective_ns(self) -> Nanoseconds:
        """The objective as the core counts."""
        return ms_to_ns(self.slo_ms)

    @property
    def situation(self) -> Situation:
        """What a policy may know."""
        return Situation(profile=self.profile, executors=1, objective_ns=self.objective_ns)

    @cached_property
    def cap(self) -> Cap:
        """The cap that the objective and a warm-up give, without any load."""
        cap = build_batcher(self).pace.cap
        assert isinstance(cap, Cap)
        return cap

    @property
    def capacity_rps(self) -> float:
        """Requests per second that full batches of that size carry: b/m(b), by their rows."""
        rows = self.cap.calm_rows
        rows_per_second = rows * NS_PER_SECOND / self.profile.mean_ns(rows)
        return rows_per_second / self.rows_per_request

    def arrivals(self, load: float, duration_s: float, *, seed: int = 1) -> Instants:
        """Draw Poisson arrivals at a multiple of the capacity."""
        steady = SteadyArrivals(rate_rps=load * self.capacity_rps)
        return steady.draw(Span(duration_s=duration_s), seed=seed)

    def slower(self, factor: float) -> "Setting":
        """Let every call take so many times as long; a table keeps its means and spreads alone."""
        law = self.profile.law
        assert isinstance(law, Table), "it was measured"
        sizes = tuple(
            MeasuredSize(rows=size.rows, mean_ms=factor * size.mean_ms, std_ms=factor * size.std_ms)
            for size in law.sizes
        )
        return replace(self, profile=msgspec.structs.replace(self.profile, law=Table(sizes=sizes)))

    def slowed(self) -> "Setting":
        """Let every call take twice as long for 20 s."""
        drift = (DriftStep(at_s=SLOW_FROM_S, factor=2), DriftStep(at_s=SLOW_UNTIL_S, factor=1))
        return replace(self, profile=msgspec.structs.replace(self.profile, drift=drift))


def build_batcher(setting: Setting) -> MicroBatcher:
    """Build the gateway's scheduler, warmed up, as ``tidegate simulate --policy slo`` does."""
    policy = build_slo(setting.profile, executors=1, objective_ns=setting.objective_ns)
    assert isinstance(policy, MicroBatcher)
    return policy


def published_resnet50() -> Setting:
    """ResNet50 on a GTX 1080 Ti, 1.053·b + 5.072 ms, at 25 ms, with 10 % lognormal noise.

    As a table of every size, so that nothing pads: neither here nor in a gateway.
    """
    law = load_profile("gtx1080ti-resnet50")
    sizes = tuple(
        MeasuredSize(rows=rows, mean_ms=ns_to_ms(law.mean_ns(rows)))
        for rows in range(1, LARGEST_ROWS + 1)
    )
    noisy = msgspec.structs.replace(law, law=Table(sizes=sizes), noise=Noise(cv=0.1))
    return Setting(name="ResNet50", profile=noisy, slo_ms=25.0)


def published_v100() -> Setting:
    """ResNet50 on a V100, within 25 ms: batches of 70 rows, where the other has three."""
    return Setting(name="V100", profile=load_profile("v100-resnet50"), slo_ms=25.0)
