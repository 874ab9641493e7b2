"""The proof itself: what it counts, and that it cannot call a short figure ok."""

from pathlib import Path

import numpy as np
import pytest

from tests.project import ROOT
from tidegate.units import NS_PER_SECOND
from tidegate_loadtest.arrivals.files import load_curve
from tidegate_loadtest.proof.comparing import PEAK, compare_one, fitted, setting_of
from tidegate_loadtest.proof.document import BEGIN, END, insert, markdown
from tidegate_loadtest.proof.setting import published_resnet50
from tidegate_loadtest.proof.simulated import missed_between, simulate
from tidegate_loadtest.proof.stress import part
from tidegate_loadtest.proof.targets import Line, agreement, goodput_lines, share, summary
from tidegate_loadtest.replay.traffic import Log
from tidegate_loadtest.simulate.recording import Recording


@pytest.mark.parametrize(
    ("figure", "low", "high", "verdict"),
    [
        (0.95, 0.95, None, "ok"),
        (0.949, 0.95, None, "short"),
        (0.01, None, 0.01, "ok"),
        (0.0101, None, 0.01, "short"),
        (0.99, 0.985, 0.995, "ok"),
        (0.999, 0.985, 0.995, "short"),
        (None, 0.95, None, "unknown"),
    ],
)
def test_a_figure_is_ok_within_its_bounds_and_short_outside(
    figure: float | None, low: float | None, high: float | None, verdict: str
) -> None:
    line = share("simulated", "something", figure, low=low, high=high)
    assert line.verdict == verdict
    assert verdict in line.text()
    assert f"1 {'not measured' if verdict == 'unknown' else verdict}" in summary([line])


def test_live_and_simulated_agree_within_ten_percent_either_way() -> None:
    def verdict(live: float | None) -> str:
        return agreement("live", "p50", live=live, simulated=20.0, unit="ms").verdict

    assert [verdict(live) for live in (18.1, 21.9, 17.9, 22.1, None)] == [
        *("ok", "ok", "short", "short", "unknown")
    ]


def test_goodput_that_falls_under_overload_is_short_of_the_peak_and_of_lower_loads() -> None:
    falling = goodput_lines("live", 4.0, {0.9: 300.0, 2.0: 400.0, 4.0: 300.0})
    growing = goodput_lines("live", 2.0, {0.9: 300.0, 2.0: 400.0, 4.0: 500.0})
    assert [line.verdict for line in falling] == ["short", "short"]
    assert [line.verdict for line in growing] == ["short", "ok"]


def test_what_is_missed_is_counted_by_when_it_arrived() -> None:
    recording = Recording()
    for at_s, late_s in [(1, 0), (5, 0), (5, 1), (9, 1)]:
        recording.answered_at_ns.append(at_s * NS_PER_SECOND)
        recording.answered_deadline_ns.append((at_s + 2) * NS_PER_SECOND)
        recording.answered_ended_ns.append((at_s + 2 + late_s) * NS_PER_SECOND)
    recording.expired_at_ns.append(6 * NS_PER_SECOND)
    assert missed_between(recording, 4, 8) == pytest.approx(2 / 3)
    assert missed_between(recording, 0, 4) == 0
    assert missed_between(recording, 20, 30) == 0


def test_a_part_of_a_log_has_the_requests_that_were_due_then() -> None:
    log = Log.begin(np.arange(10, dtype=np.int64) * NS_PER_SECOND)
    log.status[4] = 200
    assert part(log, 4, 6).at_ns.tolist() == [4 * NS_PER_SECOND, 5 * NS_PER_SECOND]
    assert part(log, 4, 6).status.tolist()[0] == 200


def test_what_is_observed_of_a_run_does_not_change_it() -> None:
    setting = published_resnet50()
    at_ns = setting.arrivals(0.9, 10)
    run, again = simulate(setting, at_ns), simulate(setting, at_ns)
    assert run.result.answered == again.result.answered
    assert run.recording.answered_ended_ns == again.recording.answered_ended_ns
    assert 0.95 < run.covered <= 1
    assert 0 < run.cap_share <= 1


def test_a_curve_is_fitted_to_a_capacity_and_a_number_of_requests() -> None:
    curve = load_curve(ROOT / "loadtests/curves/spike.csv")
    scaled = fitted(curve, 400, requests=20_000).curve
    assert scaled.rates_rps.max() == pytest.approx(PEAK * 400)
    assert scaled.expected[-1] == pytest.approx(20_000)
    hasty = fitted(curve, 50_000, requests=1_000).curve
    assert hasty.duration_s == pytest.approx(10)


def test_a_row_names_the_best_other_and_the_page_gets_the_table(tmp_path: Path) -> None:
    curve = ROOT / "loadtests/curves/flat.csv"
    row = compare_one(curve, setting_of("v100-resnet50-clockwork"), requests=1_000)
    assert row.other.policy != "slo"
    assert row.other.goodput_rps > 0
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    insert(page, markdown([row]))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("| v100-resnet50-clockwork, 25 ms | flat |") == 1
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the marks"):
        insert(page, "table")


def test_a_line_without_a_target_only_tells() -> None:
    assert Line(where="live", what="x", figure=3.0).verdict == "ok"
