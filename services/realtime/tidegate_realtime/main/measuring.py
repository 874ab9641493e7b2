"""Times a published model by batch size, and says what came of it."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Final

from tidegate.artifacts.store import ArtifactStore
from tidegate.cli.failures import ExtraMissingError
from tidegate.cli.output import table
from tidegate.clock import Clock
from tidegate.clock.system import SystemClock
from tidegate.errors import BackendError, SettingError
from tidegate.ids import ModelRef, ModelTag
from tidegate.inference.opening import open_model
from tidegate.inference.runner import RUNTIME_VERSION
from tidegate.objects.opening import open_existing_store
from tidegate.profiles import LatencyProfile, MeasuredSize, Origin, Table, dump_profile
from tidegate.settings import load_settings
from tidegate.units import ns_to_ms, seconds_to_ns
from tidegate_realtime.backends.onnx import RunnableModel, fixed_rows
from tidegate_realtime.core.sweep import POWERS_OF_TWO, Sweep, SweepLimits, knee_rows
from tidegate_realtime.runtime.warm_up import zeros
from tidegate_realtime.settings import ServeSettings

_P99: Final = 0.99
_DRAWN: Final = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was typed; ``None`` where nothing was."""

    ref: ModelRef
    threads: int | None
    budget_s: float
    out: Path | None
    plot: Path | None
    store: str | None
    config: Path | None

    def check(self) -> None:
        """Refuse now what would fail after the measurement.

        Raises:
            SettingError: A file could not be written, or nothing can draw.
        """
        for file in filter(None, (self.out, self.plot)):
            if not file.parent.is_dir():
                raise SettingError(f"{file} cannot be written: there is no folder {file.parent}")
        if self.plot is None:
            return
        if self.plot.suffix not in _DRAWN:
            raise SettingError(
                f"--plot {self.plot}: expected a file that ends in one of {', '.join(_DRAWN)}"
            )
        if find_spec("matplotlib") is None:
            raise ExtraMissingError(
                "--plot needs the package matplotlib: pip install 'tidegate[loadtest]'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A profile, and where it was written."""

    tag: ModelTag
    profile: LatencyProfile
    sizes: tuple[MeasuredSize, ...]
    threads: int
    file: Path
    plot: Path | None

    @property
    def knee_rows(self) -> int:
        """The fewest rows that reach 97 % of the best throughput."""
        return knee_rows({size.rows: typical_ms(size) for size in self.sizes})

    def answer(self) -> Mapping[str, object]:
        """Return what ``--json`` prints."""
        return {
            "model": str(self.tag),
            "digest": self.tag.digest,
            "threads": self.threads,
            "knee_rows": self.knee_rows,
            "file": self.file,
            "plot": self.plot,
            "profile": self.profile,
        }

    def text(self) -> str:
        """Return what a person reads: one line a size, the knee marked."""
        titles = ("rows", "runs", "mean ms", "p50 ms", "p99 ms", "rows/s", "")
        lines = [
            (
                size.rows,
                size.runs,
                *(f"{ms:.3f}" for ms in (size.mean_ms, size.p50_ms, size.p99_ms)),
                f"{rows_per_second(size):.0f}",
                "<- knee" if size.rows == self.knee_rows else "",
            )
            for size in self.sizes
        ]
        drawn = [f"drawn in {self.plot}"] if self.plot else []
        facts = [
            f"{self.tag} ({self.tag.digest}) on {self.profile.origin.hardware}",
            table(titles, lines),
            f"written to {self.file}",
        ]
        return "\n".join([*facts, *drawn])


def measure_published(wish: Wish, *, tell: Callable[[str], None]) -> Measured:
    """Load a model, measure it and write its profile.

    Args:
        wish: What to measure, and where to write.
        tell: Called with a line of progress now and then.

    Raises:
        SettingError: Something that was typed or configured cannot be used.
        ArtifactError: The model cannot be loaded.
        BackendError: The model does not run a single row of zeros.
        PartUnavailableError: The store does not answer.
    """
    wish.check()
    settings = load_settings(config=wish.config, flags={"store": wish.store})
    threads = wish.threads or settings.section(ServeSettings).threads
    store = ArtifactStore(open_existing_store(settings.store))
    model = open_model(store, wish.ref, cache=settings.cache_dir, threads=threads)
    clock = SystemClock()
    sizes = measure(model, budget_ns=seconds_to_ns(wish.budget_s), clock=clock, tell=tell)
    origin = Origin(
        status="measured",
        source=f"tidegate profile, onnxruntime {RUNTIME_VERSION}",
        date=clock.utc_now().date().isoformat(),
        model=str(model.tag),
        hardware=f"{os.cpu_count()} CPU cores ({platform.machine()}), {threads} thread(s) a call",
    )
    profile = LatencyProfile(schema=1, name=str(model.tag), law=Table(sizes=sizes), origin=origin)
    file = wish.out or Path(f"{model.tag.name}-{model.tag.version}.profile.json")
    file.write_bytes(dump_profile(profile))
    measured = Measured(
        tag=model.tag, profile=profile, sizes=sizes, threads=threads, file=file, plot=wish.plot
    )
    if wish.plot is not None:
        from tidegate_realtime.main.plotting import plot  # matplotlib, an extra

        plot(measured, wish.plot)
    return measured


def measure(
    model: RunnableModel, *, budget_ns: int, clock: Clock, tell: Callable[[str], None]
) -> tuple[MeasuredSize, ...]:
    """Time batches of zeros, by the sweep that the gateway's warm-up makes too.

    Raises:
        BackendError: The model does not run the smallest batch; a larger one that fails is
            reported and left out.
    """
    fixed = fixed_rows(model.signature)
    limits = SweepLimits(budget_ns=budget_ns, sizes=POWERS_OF_TWO if fixed is None else (fixed,))
    sweep, told = Sweep(limits, now_ns=clock.now_ns()), 0
    while (rows := sweep.next_rows(clock.now_ns())) is not None:
        if rows != told:
            again = " once more" if rows in sweep.runs else ""
            tell(f"measuring batches of {rows} row(s){again}")
            inputs, told = zeros(model.signature, rows), rows
        began_at_ns = clock.now_ns()
        try:
            model.run(inputs)
        except BackendError as error:
            sweep.on_failed(rows)
            if not sweep.runs:
                raise
            tell(f"batches of {rows} rows fail and are left out: {error}")
        else:
            now_ns = clock.now_ns()
            sweep.on_run(rows, now_ns - began_at_ns, now_ns)
    return tuple(_size(rows, took_ns) for rows, took_ns in sorted(sweep.runs.items()))


def rows_per_second(size: MeasuredSize) -> float:
    """Return the throughput at the median time, which one hiccup of the machine does not move."""
    return size.rows * 1_000 / typical_ms(size)


def typical_ms(size: MeasuredSize) -> float:
    """Return the median; the mean where only that is known."""
    return size.mean_ms if size.p50_ms is None else size.p50_ms


def _size(rows: int, took_ns: tuple[int, ...]) -> MeasuredSize:
    return MeasuredSize(
        rows=rows,
        mean_ms=ns_to_ms(round(fmean(took_ns))),
        std_ms=ns_to_ms(round(pstdev(took_ns))),
        p50_ms=ns_to_ms(round(median(took_ns))),
        p99_ms=ns_to_ms(sorted(took_ns)[ceil(_P99 * len(took_ns)) - 1]),
        runs=len(took_ns),
    )
