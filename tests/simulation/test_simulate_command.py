import json
from pathlib import Path
from typing import Any

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


Figures = dict[str, Any]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Figures:
    assert run([*ARGUMENTS, *arguments, "--json"]) == 0
    answered: Figures = json.loads(capsys.readouterr().out)
    return answered


def side_by_side(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Figures]:
    results: list[Figures] = answer(capsys, "--policy", "all", *arguments)["results"]
    return results


def test_one_policy_answers_with_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    result = answer(capsys)
    assert tuple(result)[: len(KEYS)] == KEYS
    assert result["policy"] == "slo"
    assert result["arrived"] == 500
    numbers = [result[key] for key in KEYS[1:]]
    assert all(isinstance(number, int | float) for number in numbers)


def test_all_policies_answer_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    results = side_by_side(capsys)
    assert [result["policy"] for result in results] == list(ALL)
    assert len({result["offered_rps"] for result in results}) == 1


def test_the_table_has_a_line_for_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--policy", "all"]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["policy", "goodput/s", "rejected"]
    assert [line.split()[0] for line in lines] == list(ALL)
    assert last.startswith("500 requests at 5")


@pytest.mark.parametrize("option", ["--slo-ms 25", "--fail-ratio 0.1", "--find-capacity 0.5"])
def test_a_terminal_of_100_columns_has_room_for_the_table(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    overload = ["--policy", "all", "--arrivals", "poisson:5000", "--requests", "20000"]
    assert run([*ARGUMENTS, *overload, *option.split()]) == 0
    first, *lines, _ = capsys.readouterr().out.splitlines()
    drawn_beside = len(first.split()) + 1  # a column is three apart there, and two here
    assert max(map(len, [first, *lines])) + drawn_beside <= 100


def test_calls_that_fail_are_looked_through_for_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    failing = ["--fail-ratio", "0.2", "--slo-ms", "500"]
    ours, *others = side_by_side(capsys, *failing)
    assert 0 < ours["failed"] < min(other["failed"] for other in others) / 2
    for result in (ours, *others):
        ended = ("answered", "rejected", "expired", "failed")
        assert sum(result[outcome] for outcome in ended) == 500
    assert answer(capsys, *failing)["failed"] == ours["failed"]
    assert run([*ARGUMENTS, *failing]) == 0
    assert "failed" in capsys.readouterr().out.splitlines()[0].split()


def test_when_every_call_fails_every_request_does(capsys: pytest.CaptureFixture[str]) -> None:
    for result in side_by_side(capsys, "--fail-ratio", "1"):
        assert result["failed"] + result["rejected"] + result["expired"] == 500
        assert (result["answered"], result["goodput_rps"]) == (0, 0)


@pytest.mark.parametrize("policy", ["slo", "all"])
def test_an_objective_shorter_than_one_row_is_named_with_both_numbers(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*ARGUMENTS, "--slo-ms", "5.9", "--policy", policy]) == 2
    said = capsys.readouterr().err
    assert "one row of linear:1:5 takes 6 ms at p99, the objective is 5.9 ms" in said
    assert "--best-effort" in said
    assert run([*ARGUMENTS, "--slo-ms", "5.9", "--policy", "none"]) == 0


def test_best_effort_answers_everybody_and_counts_who_is_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    impossible = answer(capsys, "--slo-ms", "5.9", "--best-effort")
    assert (impossible["answered"], impossible["late"]) == (500, 500)
    overload = ["--slo-ms", "20", "--arrivals", "poisson:5000"]
    refusing, answering = answer(capsys, *overload), answer(capsys, *overload, "--best-effort")
    assert refusing["rejected"] > 0
    assert (answering["rejected"], answering["expired"], answering["answered"]) == (0, 0, 500)
    assert answering["missed_ratio"] == answering["late"] / 500 > 0.5


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
    crowded = ["--policy", "all", "--executors", "3", "--fail-ratio", "0.1"]
    for name in ("one.svg", "two.svg"):
        assert run([*ARGUMENTS, *crowded, "--plot", str(tmp_path / name)]) == 0
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
        (["--fail-ratio", "1.5"], "Invalid value for '--fail-ratio'"),
    ],
)
def test_what_cannot_be_meant_starts_nothing(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*ARGUMENTS, *arguments]) == 2
    assert says in capsys.readouterr().err
