"""Latency profiles: how long a model call takes, measured here or published elsewhere, as a value.

Whoever simulates, emulates or plans loads the same file. Light on purpose: nothing here imports
numpy, reads a clock or rolls dice of its own.
"""

from tidegate.profiles.errors import ProfileError
from tidegate.profiles.laws import Linear, MeasuredSize, Table
from tidegate.profiles.loading import bundled_profiles, dump_profile, load_profile, parse_profile
from tidegate.profiles.profile import DriftStep, LatencyProfile, Noise, Origin, Stalls
from tidegate.profiles.sampling import ProfileSampler, RandomSource

__all__ = [
    "DriftStep",
    "LatencyProfile",
    "Linear",
    "MeasuredSize",
    "Noise",
    "Origin",
    "ProfileError",
    "ProfileSampler",
    "RandomSource",
    "Stalls",
    "Table",
    "bundled_profiles",
    "dump_profile",
    "load_profile",
    "parse_profile",
]
