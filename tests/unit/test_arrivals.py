import numpy as np
import pytest

from tidegate.errors import SettingError
from tidegate_loadtest.arrivals.curve import CurveArrivals, RateCurve
from tidegate_loadtest.arrivals.parsing import parse_arrivals
from tidegate_loadtest.arrivals.port import Arrivals, Span
from tidegate_loadtest.arrivals.recorded import RecordedArrivals, spread_evenly
from tidegate_loadtest.arrivals.renewal import Renewal

MS = 1_000_000
RUSH = RateCurve.through([0, 10, 10, 30, 50], [50, 50, 500, 500, 0], where="rush")


def cv_of(at_ns: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> float:
    gaps = np.diff(at_ns)
    return float(np.std(gaps) / np.mean(gaps))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("typed", "cv"), [("poisson:250", 1.0), ("gamma:250:0.3", 0.3)])
def test_a_process_has_the_rate_and_the_burstiness_that_were_asked_for(
    typed: str, cv: float, seed: int
) -> None:
    at_ns = parse_arrivals(typed).draw(Span(requests=100_000), seed=seed)
    assert at_ns.size == 100_000
    assert at_ns.size / at_ns[-1] * 1e9 == pytest.approx(250, rel=0.01)
    assert cv_of(at_ns) == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize("cv", [2.0, 4.0])
def test_a_bursty_process_has_both_over_seeds(cv: float) -> None:
    """The rate of one run of 100,000 bursty gaps is only known to cv / sqrt(100,000)."""
    arrivals = parse_arrivals(f"gamma:250:{cv}")
    runs = [arrivals.draw(Span(requests=100_000), seed=seed) for seed in range(12)]
    assert np.mean([run[-1] for run in runs]) / 1e9 == pytest.approx(400, rel=0.01)
    assert np.mean([cv_of(run) for run in runs]) == pytest.approx(cv, rel=0.05)


def test_a_curve_is_followed_in_every_part_of_it() -> None:
    arrivals = CurveArrivals(curve=RUSH)
    assert RUSH.expected[-1] == 500 + 10_000 + 5_000
    runs = [arrivals.draw(Span(), seed=seed) / 1e9 for seed in range(40)]
    counts = np.mean([np.histogram(run, [0, 10, 30, 40, 50])[0] for run in runs], axis=0)
    assert counts == pytest.approx([500, 10_000, 3_750, 1_250], rel=0.02)
    assert np.sum(counts) == pytest.approx(15_500, rel=0.01)


def test_a_curve_keeps_the_burstiness_of_its_process() -> None:
    flat = RateCurve.through([0, 500], [100, 100], where="flat")
    runs = [CurveArrivals(curve=flat, gaps=Renewal(cv=3)).draw(Span(), seed=s) for s in range(12)]
    assert np.mean([cv_of(run) for run in runs]) == pytest.approx(3, rel=0.05)
    assert np.mean([run.size for run in runs]) == pytest.approx(50_000, rel=0.02)


def test_instants_are_the_inverse_of_expected_arrivals() -> None:
    positions = np.linspace(0, 15_500, 1_000)
    back = [RUSH.expected_by(float(at_s)) for at_s in RUSH.instants_s(positions)]
    assert back == pytest.approx(positions, abs=1e-6)


@pytest.mark.parametrize(
    "arrivals",
    [
        pytest.param(parse_arrivals("poisson:100"), id="poisson"),
        pytest.param(parse_arrivals("gamma:100:2"), id="gamma"),
        pytest.param(CurveArrivals(curve=RUSH), id="curve"),
        pytest.param(RecordedArrivals(at_ns=np.arange(0, 5_000 * MS, MS)), id="recorded"),
    ],
)
def test_every_source_draws_again_and_stops_where_it_is_told(arrivals: Arrivals) -> None:
    run = arrivals.draw(Span(duration_s=4), seed=7)
    assert (arrivals.draw(Span(duration_s=4), seed=7) == run).all()
    assert (np.diff(run) >= 0).all()
    assert 0 <= run[0] <= run[-1] < 4_000 * MS
    assert arrivals.draw(Span(requests=20), seed=7) == pytest.approx(run[:20], abs=2)
    assert arrivals.draw(Span(requests=20, duration_s=4), seed=7).size == 20
    faster = arrivals.draw(Span(duration_s=2), seed=7, scale=2.0)
    slower_part = arrivals.draw(Span(duration_s=2), seed=7)
    assert faster.size > 1.5 * slower_part.size


def test_a_seed_decides_and_nothing_else() -> None:
    poisson = parse_arrivals("poisson:100")
    one, other = (poisson.draw(Span(requests=50), seed=seed) for seed in (1, 2))
    assert (one != other).any()


def test_instants_of_a_coarse_clock_are_spread_over_its_step() -> None:
    coarse = np.array([0, 0, 0, 3_000, 3_000, 9_000]) * MS
    spread = spread_evenly(coarse, resolution_ns=MS)
    assert spread.tolist() == [0, 1_000 * MS, 2_000 * MS, 3_000 * MS, 4_500 * MS, 9_000 * MS]


def test_instants_of_a_fine_clock_stay_where_they_are() -> None:
    for fine in ([0, 0, 1, 5], [0, 3_000, 9_000], [5, 5, 5], []):
        at_ns = np.array(fine, np.int64) * MS
        assert spread_evenly(at_ns, resolution_ns=MS) is at_ns


def test_a_curve_can_be_played_in_another_time() -> None:
    quick = RUSH.lasting(5)
    assert quick.duration_s == 5
    assert quick.expected[-1] == pytest.approx(1_550)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("uniform:5", "none of: poisson:RATE"),
        ("poisson", "none of: poisson:RATE"),
        ("poisson:fast", "RATE must be a number, found 'fast'"),
        ("poisson:0", "rate 0.0/s: it must be above 0"),
        ("poisson:inf", "finite"),
        ("gamma:100", "CV must be a number, found ''"),
        ("gamma:100:0", "cv=0.0: it must lie between 0.01 and 100.0"),
        ("curve:no-such-file.csv", "no-such-file.csv cannot be read: No such file"),
        ("trace:no-such-file.csv", "no-such-file.csv cannot be read: No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_reason(typed: str, says: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_arrivals(typed)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("times", "rates"),
    [
        ([], []),
        ([0], [5]),
        ([0, 1, 0.5], [1, 1, 1]),
        ([1, 1], [2, 3]),
        ([0, 1], [1, -1]),
        ([0, 1], [0, 0]),
        ([0, np.nan], [1, 1]),
        ([0, 1], [1, np.inf]),
    ],
)
def test_points_that_are_no_curve_are_refused(times: list[float], rates: list[float]) -> None:
    with pytest.raises(SettingError, match=r"my\.csv"):
        RateCurve.through(times, rates, where="my.csv")
