"""The curves that come with the project, and traces in the layouts of those who publish them."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.project import ROOT
from tidegate.errors import SettingError
from tidegate_loadtest.arrivals.curve import CurveArrivals
from tidegate_loadtest.arrivals.files import load_curve, load_trace
from tidegate_loadtest.arrivals.parsing import parse_arrivals
from tidegate_loadtest.arrivals.port import Span

CURVES = sorted((ROOT / "loadtests/curves").iterdir())
HOURLY = (
    *(120, 130, 150, 200, 350, 800, 1200, 2000, 1800, 1500, 1400, 1600),
    *(1800, 1900, 2100, 2400, 3000, 3500, 3000, 2200, 1800, 1500, 900, 500),
)
LAYOUTS = {
    "nanoseconds": ("at_ns,tokens\n7000000,1\n9000000,2\n12500000,9\n", [0, 2, 5.5]),
    "seconds": ("t_s\n0.5\n0.75\n0.75\n0.751\n", [0, 250, 250, 251]),
    "milliseconds": ("timestamp_ms,input_length\n3,1\n40,2\n40,2\n55,1\n", [0, 37, 37, 52]),
    "coarse milliseconds": ("timestamp_ms\n0\n0\n3000\n9000\n", [0, 1500, 3000, 9000]),
    "dates": (
        "TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.9799600,4\n2023-11-16 18:17:04.0319600,9\n",
        [0, 52],
    ),
    "dates in UTC": ("timestamp\n2026-01-01T00:00:00Z\n2026-01-01T00:00:00.010Z\n", [0, 10]),
    "out of order": ("time_s\n2\n1\n", [0, 1000]),
    "ends": ("app,end_timestamp,duration\na,10.0,4.0\nb,9.0,2.5\n", [0, 500]),
}


@pytest.mark.parametrize("file", CURVES, ids=lambda file: file.stem)
def test_a_curve_of_the_project_says_what_it_is_and_can_be_drawn(file: Path) -> None:
    assert file.read_text().startswith("# ")
    curve = load_curve(file).curve
    scale = 5_000 / curve.expected[-1]
    at_ns = parse_arrivals(f"curve:{file}:{scale}").draw(Span(), seed=1)
    assert at_ns.size == pytest.approx(5_000, rel=0.1)
    assert at_ns[-1] <= curve.duration_s * 1e9


def test_the_day_in_hours_has_its_published_totals() -> None:
    curve = load_curve(ROOT / "loadtests/curves/hourly.csv").curve
    by_hour = [curve.expected_by(3_600.0 * hour) for hour in range(25)]
    assert np.diff(by_hour) == pytest.approx(HOURLY, abs=1e-5)
    assert curve.expected[-1] == pytest.approx(35_850, abs=1e-4)
    assert max(curve.rates_rps) / (35_850 / 86_400) == pytest.approx(2.3431, abs=1e-4)


def test_the_lunch_rush_is_a_step_of_a_hundred_times() -> None:
    curve = load_curve(ROOT / "loadtests/curves/lunch-rush.csv").curve
    assert set(curve.rates_rps) == {50, 5_000}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_trace_is_read_whatever_its_publisher_calls_the_columns(
    layout: str, ending: str, tmp_path: Path
) -> None:
    text, expected_ms = LAYOUTS[layout]
    file = tmp_path / f"trace.{ending}"
    if ending == "parquet":
        names, *rows = (line.split(",") for line in text.splitlines())
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
    else:
        file.write_bytes(gzip.compress(text.encode()) if ending == "csv.gz" else text.encode())
    at_ns = load_trace(file).draw(Span(), seed=1)
    assert at_ns / 1e6 == pytest.approx(expected_ms)


def test_typed_columns_of_parquet_are_read_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "trace.parquet"
    dates = pa.array(np.array(["2026-01-01T00:00:00", "2026-01-01T00:00:02"], "datetime64[us]"))
    pq.write_table(pa.table({"timestamp": dates, "rows": [1, 2]}), file)
    assert load_trace(file).draw(Span(), seed=1).tolist() == [0, 2_000_000_000]


def test_counts_of_a_minute_become_a_rate_that_lasts_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("period,count\n1998-04-30 21:30:00,600\n1998-04-30 21:31:00,6000\n")
    arrivals = load_trace(file)
    assert isinstance(arrivals, CurveArrivals)
    assert arrivals.curve.expected.tolist() == [0, 600, 600, 6_600]
    assert arrivals.curve.duration_s == 120


def test_rates_of_several_clients_are_added_up(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("client,t_s,rate_rps\na,0,3\nb,0,4\na,600,1\n")
    arrivals = load_trace(file)
    assert isinstance(arrivals, CurveArrivals)
    assert arrivals.curve.rates_rps.tolist() == [7, 7, 1, 1]


def test_a_curve_in_toml_says_how_bursty_it_is(tmp_path: Path) -> None:
    file = tmp_path / "curve.toml"
    file.write_text('process = "gamma"\ncv = 2.5\npoints = [[0, 10], [60, 20]]\n')
    arrivals = load_curve(file)
    assert arrivals.gaps.cv == 2.5
    assert arrivals.curve.expected[-1] == 900


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "points = [[0, 1]", "a.toml: "),
        ("a.toml", "points = [[0, 1], [1, 1]]\ncv = 2.0", 'cv=2.0 needs process = "gamma"'),
        ("a.toml", "points = []", "needs two points or more"),
        ("a.toml", "points = [[0, 1], [1, 1]]\nburst = 1", "unknown field `burst`"),
        ("a.csv", "rate\n1\n", "has the columns rate; known are: time_s, rate_rps;"),
        ("a.csv", "time_s,rate_rps\n0,many\n1,2\n", "time_s, rate_rps: could not convert"),
        ("a.csv", "time_s,rate_rps\n0\n", "a CSV needs a line of names and rows"),
        ("a.csv", "# nothing\n", "a CSV needs a line of names and rows"),
        ("a.csv", "t_s\n1\n2\n", "has no column rate_rps or count; replay it with trace:"),
        ("a.parquet", "no", "is no Parquet file"),
        ("a.csv.gz", "no", "cannot be read"),
        ("a.csv", "\udcff\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_curve_is_refused_with_a_reason(
    name: str, text: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingError) as refusal:
        load_curve(tmp_path / name)
    assert says in str(refusal.value)
