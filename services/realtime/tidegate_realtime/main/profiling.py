"""``tidegate profile``: the command here, what it does in ``tidegate_realtime.main.measuring``."""

from pathlib import Path

import click

from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import emit, examples, json_option


@click.command(
    epilog=examples(
        "tidegate profile risk@stable",
        "tidegate profile risk@7 --threads 2 --out risk.json --plot risk.svg",
    )
)
@click.argument("ref", metavar="MODEL[@ALIAS|@VERSION]")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Cores that one call may use.  [default: serve.threads]",
)
@click.option(
    "--budget-s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to measure; a slow model takes longer than a short budget.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the profile goes.  [default: ./MODEL-VERSION.profile.json]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.svg",
    help="Draw time and throughput by batch size; the ending chooses the format.",
)
@store_option
@config_option
@json_option
def profile(
    ref: str,
    threads: int | None,
    budget_s: float,
    out: Path | None,
    plot: Path | None,
    **common: str | None,
) -> None:
    """Measure how long batches of a published model take here.

    Doubles the rows until that pays no more, and marks the knee: the fewest rows that reach 97 % of
    the best throughput. The file is what 'tidegate simulate --profile' and an emulated backend
    replay. Measure on an idle machine of the kind that will serve.
    """
    from tidegate.ids import ModelRef
    from tidegate_realtime.main.measuring import Wish, measure_published  # numpy and onnxruntime

    wish = Wish(
        ref=ModelRef.parse(ref),
        threads=threads,
        budget_s=budget_s,
        out=out,
        plot=plot,
        store=common["store"],
        config=Path(common["config"]) if common["config"] else None,
    )
    measured = measure_published(wish, tell=lambda line: click.echo(line, err=True))
    emit(measured.answer(), json_to=common["json_to"], text=measured.text())
