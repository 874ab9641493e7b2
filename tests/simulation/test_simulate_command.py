import json
from pathlib import Path

import pytest

from tests.project import ROOT
from tidegate.cli import run
from tidegate_loadtest.simulate.policies.building import ALL

ARGUMENTS = [
    "simulate",
    "--profile",
    "linear:1:5",
    "--arrivals",
    "poisson:500",
    "--requests",
    "500",
]
KEYS = (
    *("policy", "offered_rps", "goodput_rps", "answered", "rejected", "expired", "missed_ratio"),
    *("p50_ms", "p99_ms", "mean_ms", "mean_batch_rows", "utilisation", "simulated_requests_per_s"),
)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run([*ARGUMENTS, *arguments, "--json"]) == 0
    answered: dict[str, object] = json.loads(capsys.readouterr().out)
    return answered


def test_one_policy_answers_with_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    result = answer(capsys)
    assert tuple(result)[: len(KEYS)] == KEYS
    assert result["policy"] == "slo"
    assert result["arrived"] == 500
    numbers = [result[key] for key in KEYS[1:]]
    assert all(isinstance(number, int | float) for number in numbers)


def test_all_policies_answer_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    results = answer(capsys, "--policy", "all")["results"]
    assert isinstance(results, list)
    assert [result["policy"] for result in results] == list(ALL)
    assert len({result["offered_rps"] for result in results}) == 1


def test_the_table_has_a_line_for_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--policy", "all"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["policy", "offered/s", "goodput/s"]
    assert [line.split()[0] for line in lines] == list(ALL)


def test_a_duration_and_a_curve_bound_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    rush = ROOT / "loadtests/curves/lunch-rush.csv"
    result = answer(capsys, "--arrivals", f"curve:{rush}:0.1", "--duration", "60", "--seed", "3")
    assert result["arrived"] == pytest.approx(300, abs=60)


def test_a_capacity_is_the_highest_rate_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    share = ["--find-capacity", "0.99", "--slo-ms", "50", "--policy", "early-drop"]
    found = answer(capsys, *share)
    assert found["offered_rps"] == pytest.approx(750, rel=0.15)
    assert run([*ARGUMENTS, *share]) == 0
    assert "at the highest rate with 99.00% answered in time" in capsys.readouterr().out


def test_an_objective_that_no_rate_meets_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--find-capacity", "0.99", "--slo-ms", "5", "--policy", "none"]) == 2
    assert "answers 99.00% in time at no rate" in capsys.readouterr().err


def test_a_plot_is_an_svg_and_the_same_every_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.svg", "two.svg"):
        assert run([*ARGUMENTS, "--policy", "all", "--plot", str(tmp_path / name)]) == 0
    drawn = (tmp_path / "one.svg").read_bytes()
    assert b"<svg" in drawn
    assert drawn == (tmp_path / "two.svg").read_bytes()
    assert run([*ARGUMENTS, "--plot", str(tmp_path / "no/such/folder.svg")]) == 2
    assert "--plot cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "best"], "policy 'best' is none of"),
        (["--arrivals", "sometimes"], "arrivals 'sometimes' are none of: poisson:RATE"),
        (["--profile", "v100-resnet51"], "Did you mean 'v100-resnet50'?"),
        (["--slo-ms", "0"], "Invalid value for '--slo-ms'"),
        (["--executors", "0"], "Invalid value for '--executors'"),
    ],
)
def test_what_cannot_be_meant_starts_nothing(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*ARGUMENTS, *arguments]) == 2
    assert says in capsys.readouterr().err
