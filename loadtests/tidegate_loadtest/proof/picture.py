"""The loads in one picture: goodput, latency and batch size, live and simulated."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tidegate_loadtest.proof.live import Live
from tidegate_loadtest.proof.setting import Setting
from tidegate_loadtest.proof.simulated import Simulated
from tidegate_loadtest.simulate.plot import write_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Sweep: TypeAlias = tuple[Setting, Mapping[float, Simulated], Mapping[float, Live]]
"""What was measured of one model at each load, in both worlds."""


def draw(sweeps: Sequence[Sweep], file: Path) -> None:
    """Draw a column for each model, and write the file; its folder must be there."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra, and slow to load

    figure = Figure(figsize=(6 * len(sweeps), 9), layout="constrained")
    panels = figure.subplots(3, len(sweeps), sharex=True, squeeze=False)
    for column, sweep in enumerate(sweeps):
        _draw_column(list(panels[:, column]), sweep)
    write_svg(figure, file)


def _draw_column(panels: "Sequence[Axes]", sweep: Sweep) -> None:
    setting, simulated, live = sweep
    rates, latencies, batches = panels
    rates.set(title=f"{setting.name}, {setting.slo_ms:g} ms", ylabel="answered in time/s")
    latencies.set(ylabel="p99 of the answers, ms")
    batches.set(ylabel="rows in a batch", xlabel=f"load, 1 = {setting.capacity_rps:.0f} requests/s")
    latencies.axhline(setting.slo_ms, color="black", linestyle=":", label="objective")
    loads = list(simulated)
    models = [run.result for run in simulated.values()]
    runs = [run.result for run in live.values()]
    _line(rates, loads, [result.offered_rps for result in models], "offered", "black")
    _line(rates, loads, [result.goodput_rps for result in models], "simulated", "C0")
    _line(rates, loads, [result.goodput_rps for result in runs], "live", "C1")
    _line(latencies, loads, [result.p99_ms for result in models], "simulated", "C0")
    _line(latencies, loads, [result.p99_ms for result in runs], "live", "C1")
    rows = [(result.mean_batch_rows or 0) for result in models]
    _line(batches, loads, rows, "simulated", "C0")
    _line(batches, loads, [run.mean_batch_rows for run in live.values()], "live", "C1")
    rates.set_ylim(0, 1.2 * max(*(m.goodput_rps for m in models), *(r.goodput_rps for r in runs)))
    for axes in panels:
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="lower right")


def _line(
    axes: "Axes", loads: Sequence[float], values: Sequence[float | None], label: str, color: str
) -> None:
    figures = [float("nan") if value is None else value for value in values]
    axes.plot(loads, figures, label=label, color=color, linewidth=1, marker="o", markersize=3)
