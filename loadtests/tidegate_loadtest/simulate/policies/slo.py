"""The gateway's own scheduler: the one place here where it is built."""

from tidegate.profiles import LatencyProfile
from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.policies.port import Policy
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher


def build_slo(profile: LatencyProfile, *, executors: int, objective_ns: Nanoseconds) -> Policy:
    """Build ``MicroBatcher`` as the gateway would for a model that behaves like the profile."""
    del objective_ns  # deadlines travel with the requests
    return MicroBatcher(executors=executors, limits=BatchLimits().lowered_to(profile.largest_size))
