"""A run over time, as SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.simulate.recording import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS: Final = 150
"""Points of a line: more is noise at the width of a page."""

Floats = npt.NDArray[np.float64]


def plot_runs(
    runs: Sequence[tuple[str, Recording]], file: Path, *, title: str, slo_ms: float
) -> None:
    """Draw goodput, p99 and batch size over time, a line for each run, and write the file.

    The same runs give the same bytes.

    Args:
        runs: Name and recording of each; all of the same arrivals.
        file: Where to; its folder must be there.
        title: What was simulated.
        slo_ms: Drawn as the line that p99 should stay below.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra, and slow to load

    end_ns = max(recording.last_arrival_ns for _, recording in runs) + 1
    edges_ns = np.linspace(0, end_ns, BINS + 1)
    figure = Figure(figsize=(9, 9), layout="constrained")
    rates, latencies, batches = figure.subplots(3, 1, sharex=True)
    rates.set(title=title, ylabel="requests/s")
    latencies.set(ylabel="p99 of the answers, ms", yscale="log")
    batches.set(ylabel="rows in a batch", xlabel="seconds", yscale="log")
    _line(rates, edges_ns, _rate(_arrivals(runs[0][1]), edges_ns), "offered", "black")
    latencies.axhline(slo_ms, color="black", linestyle=":", label="objective")
    for place, (name, recording) in enumerate(runs):
        color = f"C{place}"
        _line(
            rates,
            edges_ns,
            _rate(_in_time(recording), edges_ns),
            f"{name}, answered in time",
            color,
        )
        _line(latencies, edges_ns, _p99_ms(recording, edges_ns), name, color)
        _line(batches, edges_ns, _batch_rows(recording, edges_ns), name, color)
    for axes in (rates, latencies, batches):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper right")
    write_svg(figure, file)


def write_svg(figure: "Figure", file: Path) -> None:
    """Write a figure so that the same one gives the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415 - of the extra, and slow to load

    with mpl.rc_context({"svg.hashsalt": "tidegate"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _line(axes: "Axes", edges_ns: Floats, values: Floats, label: str, color: str) -> None:
    axes.plot(edges_ns[:-1] / NS_PER_SECOND, values, label=label, color=color, linewidth=1)


def _arrivals(recording: Recording) -> Floats:
    columns = (
        recording.answered_at_ns,
        recording.rejected_at_ns,
        recording.expired_at_ns,
        recording.failed_at_ns,
    )
    return np.concatenate([np.asarray(column, float) for column in columns])


def _in_time(recording: Recording) -> Floats:
    ended_ns = np.asarray(recording.answered_ended_ns, float)
    return ended_ns[ended_ns <= np.asarray(recording.answered_deadline_ns)]


def _rate(at_ns: Floats, edges_ns: Floats) -> Floats:
    counts, _ = np.histogram(at_ns, edges_ns)
    return np.asarray(counts / np.diff(edges_ns) * NS_PER_SECOND)


def _p99_ms(recording: Recording, edges_ns: Floats) -> Floats:
    arrived_ns = np.asarray(recording.answered_at_ns, float)
    took_ms = (np.asarray(recording.answered_ended_ns) - arrived_ns) / NS_PER_MS
    order = np.argsort(arrived_ns, kind="stable")
    bounds = np.searchsorted(arrived_ns[order], edges_ns[1:-1])
    parts = np.split(took_ms[order], bounds)
    return np.array([np.percentile(part, 99) if part.size else np.nan for part in parts])


def _batch_rows(recording: Recording, edges_ns: Floats) -> Floats:
    started_ns = np.asarray(recording.batch_at_ns, float)
    rows, _ = np.histogram(started_ns, edges_ns, weights=np.asarray(recording.batch_rows, float))
    batches, _ = np.histogram(started_ns, edges_ns)
    means = np.full(rows.shape, np.nan)
    np.divide(rows, batches, out=means, where=batches > 0)
    return means
