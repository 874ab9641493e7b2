"""The commands of load testing. What is heavy is imported when one of them runs."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidegate.cli.output import emit, examples, json_option, table
from tidegate.errors import SettingError
from tidegate.units import ms_to_ns, ns_to_ms

if TYPE_CHECKING:
    from tidegate_loadtest.simulate.policies.building import Situation
    from tidegate_loadtest.simulate.result import SimulationResult
    from tidegate_loadtest.simulate.running import Experiment, Run
    from tidegate_realtime.core.request import Request

COLUMNS: Final[Mapping[str, Callable[["SimulationResult"], str]]] = {
    "policy": lambda result: result.policy,
    "offered/s": lambda result: f"{result.offered_rps:.1f}",
    "goodput/s": lambda result: f"{result.goodput_rps:.1f}",
    "rejected": lambda result: _share(result.rejected, result.arrived),
    "missed": lambda result: f"{result.missed_ratio:.2%}",
    "failed": lambda result: _share(result.failed, result.arrived),
    "p50_ms": lambda result: _decimals(result.p50_ms),
    "p99_ms": lambda result: _decimals(result.p99_ms),
    "rows": lambda result: _decimals(result.mean_batch_rows),
    "used": lambda result: f"{result.utilisation:.0%}",
}
"""What a line of the table says of a run."""
_LARGE: Final = 1_000
"""From here on nobody reads decimals."""
PROGRESS_STEP: Final = 8_192
"""Requests between two looks at the bar: some twenty a second."""


@click.command(
    epilog=examples(
        "tidegate simulate --profile v100-resnet50 --arrivals poisson:2000 --slo-ms 25",
        "tidegate simulate --profile linear:1.053:5.072 --arrivals gamma:700:4 --policy all",
        "tidegate simulate --profile linear:1.053:5.072 --arrivals poisson:500 --slo-ms 25 "
        "--executors 8 --find-capacity 0.99",
        "tidegate simulate --profile p4-resnet50-int8 --arrivals "
        "curve:loadtests/curves/lunch-rush.csv:0.2 --policy slo --plot lunch.svg",
    )
)
@click.option(
    "--profile",
    required=True,
    metavar="NAME|FILE|linear:ALPHA_MS:BETA_MS",
    help="How long batches take: bundled, measured by 'tidegate profile', or ALPHA·rows + BETA.",
)
@click.option(
    "--arrivals",
    required=True,
    metavar="KIND:…",
    help="poisson:RATE, gamma:RATE:CV, curve:FILE[:SCALE] or trace:FILE; rates in requests/s.",
)
@click.option(
    "--slo-ms",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    metavar="X",
    help="The objective: from arrival to answer.",
)
@click.option(
    "--executors",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="K",
    help="Batches that can run at the same time.",
)
@click.option(
    "--policy",
    default="slo",
    show_default=True,
    metavar="NAME",
    help="slo (what the gateway does), none, fixed:ROWS:MS, greedy, aimd, mean-regression, "
    "early-drop, lazy-drop, or all of them.",
)
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after so many.  [default: 100000, and all of a curve or a trace]",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Stop arrivals after so many seconds.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="S",
    help="Of all random numbers: the same seed gives the same run.",
)
@click.option(
    "--fail-ratio",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    metavar="SHARE",
    help="Let this share of the model calls fail: slo looks for the row, the others fail all.",
)
@click.option(
    "--best-effort",
    is_flag=True,
    help="slo answers everybody, however late, as it does for a best-effort model.",
)
@click.option(
    "--find-capacity",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="Search the highest rate with this share answered in time; 0.99 is usual.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.svg",
    help="Draw rates, latency and batch size over time.",
)
@json_option
def simulate(**options: Any) -> None:  # noqa: ANN401 - click has checked and converted each
    """Replay traffic against a policy on a virtual clock, with no model and no network.

    Shows what the objective, the profile and the traffic make of goodput, latency and batches
    before anything is deployed. The policy slo is the code that the gateway runs.
    """
    from tidegate_loadtest.simulate.policies.building import ALL, OURS

    asked = Asked(**options)
    experiment = _experiment(asked)
    names = ALL if asked.policy == "all" else (asked.policy,)
    if OURS in names:
        _check_objective(experiment.situation)
    runs = [_run(name, experiment, asked.find_capacity) for name in names]
    results = [result for result, _ in runs]
    if asked.plot:
        _plot(runs, asked, asked.plot)
    answer = {"results": results} if asked.policy == "all" else results[0]
    emit(answer, json_to=asked.json_to, text=_text(results, asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of ``tidegate simulate``, as click checked them."""

    profile: str
    arrivals: str
    slo_ms: float
    executors: int
    policy: str
    requests: int | None
    duration: float | None
    seed: int
    fail_ratio: float
    best_effort: bool
    find_capacity: float | None
    plot: Path | None
    json_to: str | None


def _experiment(asked: Asked) -> "Experiment":
    from tidegate.profiles import load_profile
    from tidegate_loadtest.arrivals.parsing import parse_arrivals
    from tidegate_loadtest.arrivals.port import Span
    from tidegate_loadtest.simulate.policies.building import Situation
    from tidegate_loadtest.simulate.running import Experiment

    return Experiment(
        situation=Situation(
            profile=load_profile(asked.profile),
            executors=asked.executors,
            objective_ns=ms_to_ns(asked.slo_ms),
            best_effort=asked.best_effort,
        ),
        arrivals=parse_arrivals(asked.arrivals),
        span=Span(requests=asked.requests, duration_s=asked.duration),
        seed=asked.seed,
        fail_ratio=asked.fail_ratio,
    )


def _check_objective(situation: "Situation") -> None:
    """Refuse what the gateway would refuse to start with."""
    from tidegate_loadtest.simulate.policies.slo import shortfall

    profile = situation.profile
    found = shortfall(profile, executors=situation.executors, objective_ns=situation.ours_ns)
    if found is not None:
        raise SettingError(
            f"policy slo does not start: one row of {profile.name} takes "
            f"{ns_to_ms(found.needed_ns):.5g} ms at p{100 * found.percentile:g}, the objective is "
            f"{ns_to_ms(found.objective_ns):.5g} ms. Give a longer --slo-ms or a faster --profile, "
            "or have everybody answered, however late: --best-effort."
        )


def _run(policy: str, experiment: "Experiment", share: float | None) -> "Run":
    from tidegate_loadtest.simulate.running import find_capacity, run_policy

    watch = partial(_with_progress, policy)
    if share is None:
        at_ns = experiment.arrivals.draw(experiment.span, seed=experiment.seed)
        return run_policy(policy, at_ns, experiment, watch=watch)
    found = find_capacity(policy, experiment, share=share, watch=watch)
    if found is None:
        raise SettingError(
            f"policy {policy} answers {share:.2%} in time at no rate, however low: give it a "
            "longer --slo-ms or a faster profile."
        )
    return found


def _with_progress(name: str, requests: "Iterator[Request]", length: int) -> "Iterator[Request]":
    """Let requests pass, and say on a terminal's stderr how far they are."""
    if not sys.stderr.isatty():
        yield from requests
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=length)
        while chunk := list(islice(requests, PROGRESS_STEP)):
            yield from chunk
            progress.advance(task, len(chunk))


def _plot(runs: "list[Run]", asked: Asked, file: Path) -> None:
    from tidegate_loadtest.simulate.plot import plot_runs

    title = f"{asked.arrivals}, {asked.profile} on {asked.executors}, seed {asked.seed}"
    named = [(result.policy, recording) for result, recording in runs]
    try:
        plot_runs(named, file, title=title, slo_ms=asked.slo_ms)
    except OSError as error:
        raise SettingError(f"--plot cannot write {file}: {error.strerror}") from error


def _text(results: "list[SimulationResult]", asked: Asked) -> str:
    """Lay the figures out so that a terminal of 100 columns has room; JSON says the rest."""
    columns = dict(COLUMNS)
    if not asked.find_capacity:
        del columns["offered/s"]  # the same for all
    if not asked.fail_ratio:
        del columns["failed"]
    text = table(list(columns), [[cell(each) for cell in columns.values()] for each in results])
    if asked.find_capacity:
        return f"{text}\nat the highest rate with {asked.find_capacity:.2%} answered in time"
    arrived = results[0].arrived
    seconds = sum(each.arrived / each.simulated_requests_per_s for each in results)
    return (
        f"{text}\n{arrived:,} requests at {results[0].offered_rps:.1f}/s, simulated at "
        f"{len(results) * arrived / seconds if arrived else 0:,.0f}/s"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.2%}"


def _decimals(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < _LARGE else f"{value:.0f}"
