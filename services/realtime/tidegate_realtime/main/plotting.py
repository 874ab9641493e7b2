"""Draws a measured profile; the only module of the gateway that needs matplotlib."""

from pathlib import Path

from tidegate_realtime.main.measuring import Measured, rows_per_second, typical_ms


def plot(measured: Measured, file: Path) -> None:
    """Draw time and throughput by batch size, the knee marked, without a display."""
    from matplotlib.figure import Figure  # an extra, and half a second

    rows = [size.rows for size in measured.sizes]
    figure = Figure(figsize=(7, 6), layout="constrained")
    times, speeds = figure.subplots(2, 1, sharex=True)
    p99_ms = [size.p99_ms or typical_ms(size) for size in measured.sizes]
    times.plot(rows, p99_ms, marker="v", linestyle=":", label="p99")
    times.plot(rows, [typical_ms(size) for size in measured.sizes], marker="o", label="p50")
    times.set_ylabel("ms a call")
    speeds.plot(rows, [rows_per_second(size) for size in measured.sizes], marker="o")
    speeds.set_ylabel("rows/s")
    speeds.set_xlabel("rows in a call")
    speeds.set_xscale("log", base=2)
    speeds.set_xticks(rows, labels=list(map(str, rows)))
    for axes in (times, speeds):
        axes.set_ylim(bottom=0)
        axes.axvline(measured.knee_rows, color="grey", linestyle="--", label="knee")
        axes.grid(visible=True, alpha=0.3)
    times.legend()
    times.set_title(f"{measured.tag} on {measured.profile.origin.hardware}", fontsize=10)
    figure.savefig(file)
