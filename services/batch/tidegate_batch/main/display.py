"""How a job's progress is shown: a bar on a terminal, plain lines elsewhere; always on stderr."""

import sys
from typing import TYPE_CHECKING, Final, TextIO

from tidegate.clock import Clock
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_LINE_EVERY_NS: Final = 5 * NS_PER_SECOND
"""Often enough to see that it moves, and 14 million rows make some hundred lines."""


def build_display(clock: Clock, *, stream: TextIO | None = None) -> "LineDisplay | BarDisplay":
    """Choose by whether anybody looks at a terminal."""
    stream = stream or sys.stderr
    return BarDisplay(clock) if stream.isatty() else LineDisplay(clock, stream)


class _Speed:
    """Rows a second since the workers began.

    What an earlier driver committed does not count, nor does the time until workers are ready.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: tuple[int, int] | None = None

    def rows_per_s(self, rows_committed: int) -> float:
        now_ns = self._clock.now_ns()
        if self._first is None or self._first[1] == rows_committed:
            self._first = (now_ns, rows_committed)
        since_ns, rows_before = self._first
        return (rows_committed - rows_before) * NS_PER_SECOND / max(1, now_ns - since_ns)


class LineDisplay:
    """One line now and then, for logs."""

    def __init__(self, clock: Clock, stream: TextIO) -> None:
        self._clock = clock
        self._stream = stream
        self._speed = _Speed(clock)
        self._stage = ""
        self._next_line_at_ns = 0
        self._is_done = False

    def stage(self, text: str) -> None:
        """Write the stage, once."""
        if text != self._stage:
            self._stage = text
            self._write(text)

    def progress(self, statistics: QueueStatistics, *, workers: int | None) -> None:
        """Write rows, share and speed, every five seconds and once at the end."""
        speed = self._speed.rows_per_s(statistics.rows_committed)
        is_done = statistics.committed == statistics.chunks
        now_ns = self._clock.now_ns()
        if self._is_done or (now_ns < self._next_line_at_ns and not is_done):
            return
        self._is_done = is_done
        self._next_line_at_ns = now_ns + _LINE_EVERY_NS
        share = statistics.rows_committed / statistics.rows if statistics.rows else 1.0
        by = f", {counted(workers, 'worker')}" if workers is not None else ""
        self._write(
            f"{statistics.rows_committed} of {statistics.rows} rows ({share:.0%}), "
            f"{speed:.0f} rows/s{by}"
        )

    def close(self) -> None:
        """Nothing is left to do."""

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class BarDisplay:
    """A calm bar: rows, rows/s, time left, workers."""

    def __init__(self, clock: Clock, console: "Console | None" = None) -> None:
        self._speed = _Speed(clock)
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def stage(self, text: str) -> None:
        """Name the stage in front of the bar."""
        bar, task = self._started()
        bar.update(task, description=text)

    def progress(self, statistics: QueueStatistics, *, workers: int | None) -> None:
        """Move the bar."""
        bar, task = self._started()
        speed = self._speed.rows_per_s(statistics.rows_committed)
        by = counted(workers, "worker") if workers else ""
        bar.update(
            task,
            description="scoring",
            total=statistics.rows,
            completed=statistics.rows_committed,
            speed=f"{speed:,.0f} rows/s" if speed else "",
            workers=by,
        )

    def close(self) -> None:
        """Leave the bar where it stands, and the terminal as it was."""
        if self._progress:
            self._progress.stop()
        self._progress = None

    def _started(self) -> "tuple[Progress, TaskID]":
        if self._progress is None or self._task is None:
            self._progress = _build_bar(self._console)
            self._task = self._progress.add_task("", total=None, speed="", workers="")
            self._progress.start()
        return self._progress, self._task


def _build_bar(console: "Console | None") -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[workers]}"),
        console=console or Console(stderr=True),
    )
