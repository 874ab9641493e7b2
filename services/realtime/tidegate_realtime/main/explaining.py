"""``tidegate explain``: asks a gateway why its batches are as large as they are."""

from typing import Final
from urllib.parse import quote

import click

from tidegate.cli.operators import Json, ask_gateway
from tidegate.cli.output import emit, examples, json_option

_PATIENCE_S: Final = 10.0
"""On top of the time that the gateway watches."""


@click.command(
    epilog=examples(
        "tidegate explain http://127.0.0.1:8002 risk",
        "tidegate explain http://127.0.0.1:8002 risk@7 --window-s 30 --json",
    )
)
@click.argument("url")
@click.argument("ref", metavar="MODEL[@ALIAS|@VERSION]")
@click.option(
    "--window-s",
    type=click.FloatRange(0.1, 60),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the gateway watches before it answers.",
)
@json_option
def explain(url: str, ref: str, window_s: float, json_to: str | None) -> None:
    """Say why batches are as large as they are now, and what would change it.

    URL is the operators' listener of a gateway, port 8002 by default. It watches its traffic for a
    moment and tells what bounds the batches: callers, load, deadlines, or the cap and its reason;
    and who was refused or given up, and why. A gateway with keys asks for one of scope admin: put
    it into the variable TIDEGATE_KEY.
    """
    from tidegate.ids import ModelRef

    ModelRef.parse(ref)  # what cannot be meant is refused here
    path = f"/admin/v1/models/{quote(ref)}/explain?window_s={window_s}"
    answer = ask_gateway(url, path, timeout_s=window_s + _PATIENCE_S)
    emit(answer, json_to=json_to, text=as_text(answer))


def as_text(answer: Json) -> str:
    """Write an answer for a person."""
    each = f"{answer['mean_batch_rows']:.1f} rows each (of at most {answer['cap_rows']})"
    ran = f"{answer['rows']} rows in {answer['batches']} batches, {each}"
    over = f"{answer['model']} over {answer['window_ms'] / 1_000:.3g} s"
    lines = [f"{over}: {ran if answer['batches'] else 'idle'}"]
    for finding in answer["findings"]:
        lines += ["", finding["said"], f"  to change it: {finding['change']}"]
    return "\n".join(lines)
