"""How a job's progress is shown: a bar on a terminal, plain lines elsewhere; always on stderr."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from tidegate.clock import Clock, WallClock
from tidegate.units import NS_PER_SECOND, ns_to_seconds
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.outlook import Outlook, outlook
from tidegate_batch.core.wishes import Deadline
from tidegate_batch.core.wording import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

_LINE_EVERY_NS: Final = 5 * NS_PER_SECOND
"""Often enough to see that it moves, and 14 million rows make some hundred lines."""
_REDRAWN_PER_S: Final = 2
"""Nobody reads faster; more would only flicker."""


def build_display(
    clock: Clock,
    *,
    stream: TextIO | None = None,
    wall: WallClock | None = None,
    deadline: Deadline | None = None,
) -> "LineDisplay | BarDisplay":
    """Choose by whether anybody looks at a terminal.

    Args:
        clock: For the speed.
        stream: Standard error, unless a test says otherwise.
        wall: For the deadline.
        deadline: When the job should be done; a warning says when it will not be.
    """
    stream = stream or sys.stderr
    watched = _Watched(deadline, wall) if deadline and wall else None
    if stream.isatty():
        return BarDisplay(clock, deadline=watched)
    return LineDisplay(clock, stream, deadline=watched)


@dataclass(frozen=True, slots=True)
class _Watched:
    """A deadline, and the clock that it is on."""

    deadline: Deadline
    wall: WallClock

    def warning(self, outlook: Outlook) -> str | None:
        return self.deadline.warning(outlook, self.wall.utc_now())


class _Observer:
    """What a display has seen itself of a job's speed.

    What an earlier driver committed does not count, nor does the time until workers are ready.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: tuple[int, int] | None = None
        self._seen: list[tuple[float, int]] = []
        self._rows = 0

    def outlook(self, statistics: QueueStatistics) -> Outlook | None:
        now_ns, rows = self._clock.now_ns(), statistics.rows_committed
        if self._began is None or self._began[1] == rows:
            self._began, self._rows = (now_ns, rows), rows
        if rows > self._rows:
            self._seen.append((ns_to_seconds(now_ns), rows - self._rows))
            self._rows = rows
        return outlook(
            self._seen,
            began_s=ns_to_seconds(self._began[0]),
            now_s=ns_to_seconds(now_ns),
            rows_left=statistics.rows - rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """What is shown of a job at one moment."""

    statistics: QueueStatistics
    outlook: Outlook | None
    workers: int | None
    rows_dlq: int
    deadline: _Watched | None

    def facts(self) -> list[str]:
        """Return what is worth knowing beside rows and share, the most important first."""
        is_done = self.statistics.committed == self.statistics.chunks
        coming = self.outlook if not is_done else None
        warning = self.deadline.warning(coming) if self.deadline and coming else None
        return [
            f"{self.outlook.rows_per_s if self.outlook else 0:,.0f} rows/s",
            *([str(coming)] if coming else []),
            *([warning] if warning else []),
            *([counted(self.rows_dlq, "bad row")] if self.rows_dlq else []),
            *([counted(self.workers, "worker")] if self.workers else []),
        ]


class LineDisplay:
    """One line now and then, for logs."""

    def __init__(self, clock: Clock, stream: TextIO, *, deadline: _Watched | None = None) -> None:
        self._clock = clock
        self._deadline = deadline
        self._stream = stream
        self._observer = _Observer(clock)
        self._stage = ""
        self._next_line_at_ns = 0
        self._is_done = False

    def stage(self, text: str) -> None:
        """Write the stage, once."""
        if text != self._stage:
            self._stage = text
            self._write(text)

    def progress(
        self,
        statistics: QueueStatistics,
        *,
        workers: int | None,
        outlook: Outlook | None = None,
        rows_dlq: int = 0,
    ) -> None:
        """Write rows, share and speed, every five seconds and once at the end."""
        seen = self._observer.outlook(statistics)
        is_done = statistics.committed == statistics.chunks
        now_ns = self._clock.now_ns()
        if self._is_done or (now_ns < self._next_line_at_ns and not is_done):
            return
        self._is_done = is_done
        self._next_line_at_ns = now_ns + _LINE_EVERY_NS
        share = statistics.rows_committed / statistics.rows if statistics.rows else 1.0
        moment = _Moment(
            statistics=statistics,
            outlook=outlook or seen,
            workers=workers,
            rows_dlq=rows_dlq,
            deadline=self._deadline,
        )
        rows = f"{statistics.rows_committed} of {statistics.rows} rows ({share:.0%})"
        self._write(", ".join([rows, *moment.facts()]))

    def close(self) -> None:
        """Nothing is left to do."""

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class BarDisplay:
    """A calm bar: rows, rows/s, time left, bad rows, workers."""

    def __init__(
        self,
        clock: Clock,
        console: "Console | None" = None,
        *,
        deadline: _Watched | None = None,
    ) -> None:
        self._deadline = deadline
        self._observer = _Observer(clock)
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def stage(self, text: str) -> None:
        """Name the stage in front of the bar."""
        bar, task = self._started()
        bar.update(task, description=text)

    def progress(
        self,
        statistics: QueueStatistics,
        *,
        workers: int | None,
        outlook: Outlook | None = None,
        rows_dlq: int = 0,
    ) -> None:
        """Move the bar."""
        bar, task = self._started()
        seen = self._observer.outlook(statistics)
        moment = _Moment(
            statistics=statistics,
            outlook=outlook or seen,
            workers=workers,
            rows_dlq=rows_dlq,
            deadline=self._deadline,
        )
        bar.update(
            task,
            description="scoring",
            total=statistics.rows,
            completed=statistics.rows_committed,
            facts=" · ".join(moment.facts()),
        )

    def close(self) -> None:
        """Leave the bar where it stands, and the terminal as it was."""
        if self._progress:
            self._progress.stop()
        self._progress = None

    def _started(self) -> "tuple[Progress, TaskID]":
        if self._progress is None or self._task is None:
            self._progress = _build_bar(self._console)
            self._task = self._progress.add_task("looking", total=None, facts="")
            self._progress.start()
        return self._progress, self._task


def _build_bar(console: "Console | None") -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn
    from rich.progress import TextColumn as Words
    from rich.text import Text

    class TwoLines(Progress):
        """The bar, and below it the facts, which are cut where a terminal is too narrow."""

        def get_renderables(self) -> "Iterable[RenderableType]":
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                yield Text(f"  {task.fields['facts']}", no_wrap=True, overflow="ellipsis")

    return TwoLines(
        Words("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        console=console or Console(stderr=True),
        refresh_per_second=_REDRAWN_PER_S,
    )
