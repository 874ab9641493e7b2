"""A model that cannot keep its objective at p99, however little it has to do."""

from pathlib import Path

import pytest

from tests.fixtures.simulations import poisson, simulate
from tidegate.profiles.laws import MeasuredSize, Table
from tidegate.profiles.loading import dump_profile
from tidegate.profiles.profile import LatencyProfile, Noise, Origin, Stalls

SLO_MS = 50.0


def stalling(folder: Path, *, share: float) -> str:
    """Return a profile of which some calls take longer than the objective."""
    sizes = [(1, 3.0), (8, 5.0), (32, 11.0), (64, 20.0)]
    profile = LatencyProfile(
        schema=1,
        name="stalling",
        law=Table(sizes=tuple(MeasuredSize(rows=rows, mean_ms=ms) for rows, ms in sizes)),
        origin=Origin(status="assumed", source="this test", date="2026-12-01"),
        noise=Noise(cv=0.2),
        stalls=Stalls(probability=share, duration_ms=60),
    )
    file = folder / "stalling.json"
    file.write_bytes(dump_profile(profile))
    return str(file)


@pytest.mark.parametrize(
    ("share", "rate_rps", "of_those_who_take_all"),
    [
        (0.03, 500, 0.75),
        (0.03, 1_500, 0.75),
        (0.03, 4_000, 0.75),
        (0.1, 500, 0.5),
        (0.2, 300, 0.5),
        (0.3, 300, 0.3),
    ],
)
def test_where_nobody_can_be_answered_at_p99_many_are_answered_all_the_same(
    tmp_path: Path, share: float, rate_rps: float, of_those_who_take_all: float
) -> None:
    profile = stalling(tmp_path, share=share)
    traffic = poisson(profile, rate_rps=rate_rps, requests=10_000, slo_ms=SLO_MS)
    ours, _ = simulate("slo", traffic)
    takes_all, _ = simulate("early-drop", traffic)  # it plans by means, and refuses nobody
    assert ours.goodput_rps > of_those_who_take_all * takes_all.goodput_rps
    assert ours.missed_ratio < takes_all.missed_ratio + 0.1
