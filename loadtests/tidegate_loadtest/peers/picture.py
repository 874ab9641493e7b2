"""Answers per second over connections: a panel for each model and form, a line for each server."""

from collections.abc import Sequence
from pathlib import Path

from tidegate_loadtest.peers.judging import Row
from tidegate_loadtest.simulate.plot import write_svg


def draw(rows: Sequence[Row], file: Path) -> None:
    """Write the picture; the file's folder must be there."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra, and slow to load

    works = sorted({(row.model, row.form) for row in rows})
    servers = sorted({row.server for row in rows})
    figure = Figure(figsize=(5 * len(works), 4.5), layout="constrained")
    panels = figure.subplots(1, len(works), squeeze=False)[0]
    for axes, (model, form) in zip(panels, works, strict=True):
        axes.set(title=f"{model}, {form}", xlabel="connections", ylabel="answers/s")
        for place, server in enumerate(servers):
            line = [
                row for row in rows if (row.model, row.form, row.server) == (model, form, server)
            ]
            if line:
                axes.plot(
                    [row.connections for row in line],
                    [row.rps for row in line],
                    label=server,
                    color=f"C{place}",
                    marker="o",
                    markersize=4,
                    linewidth=1.5 if server.startswith("tidegate") else 1,
                )
        counts = sorted({row.connections for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    write_svg(figure, file)
