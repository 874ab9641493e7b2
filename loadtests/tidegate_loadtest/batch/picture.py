"""Rows per second as bars: a panel for each model, paler without the start."""

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_loadtest.batch.contenders import OURS
from tidegate_loadtest.batch.judging import Row, Rows
from tidegate_loadtest.simulate.plot import write_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(rows: Rows, file: Path) -> None:
    """Write the picture; the file's folder must be there."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra, and slow to load

    works = sorted({work for work, _ in rows}, reverse=True)
    figure = Figure(figsize=(7 * len(works), 4), layout="constrained")
    panels = figure.subplots(1, len(works), squeeze=False)[0]
    for axes, work in zip(panels, works, strict=True):
        _bars(axes, [row for (name, _), row in rows.items() if name == work])
        axes.set(title=f"{work} MLP", xlabel="rows/s; pale: without the start")
    write_svg(figure, file)


def _bars(axes: "Axes", rows: list[Row]) -> None:
    """Draw the fastest on top, Tidegate's in colour."""
    names = [str(row.contender) for row in rows]
    colors = ["C0" if row.contender in OURS else "C7" for row in rows]
    working = [row.working_rows_per_s for row in rows]
    axes.barh(names, working, color=colors, alpha=0.35)
    whole = [row.whole_rows_per_s for row in rows]
    bars = axes.barh(names, whole, color=colors)
    axes.bar_label(bars, [f"{value:,.0f}" for value in whole], padding=3, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(*whole, *working))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="x", alpha=0.3)
