"""What a person sees of a job."""

import io

from rich.console import Console

from tidegate.clock import ManualClock
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.main.display import BarDisplay, LineDisplay, build_display


def after(rows: int) -> QueueStatistics:
    """Return the totals of a job of ten chunks of a hundred rows."""
    return QueueStatistics(
        chunks=10,
        pending=10 - rows // 100,
        leased=0,
        committed=rows // 100,
        rows=1000,
        rows_committed=rows,
        leases_lost=0,
    )


def test_where_nobody_looks_at_a_terminal_there_are_plain_lines_now_and_then() -> None:
    clock, stream = ManualClock(), io.StringIO()
    display = build_display(clock, stream=stream)
    assert isinstance(display, LineDisplay)
    display.stage("starting local workers")
    display.stage("starting local workers")
    for rows in (0, 0, 200, 400, 600, 800, 1000, 1000, 1000, 1000):
        display.progress(after(rows), workers=2)
        clock.advance(2 * NS_PER_SECOND)
    display.close()
    assert stream.getvalue().splitlines() == [
        "starting local workers",
        "0 of 1000 rows (0%), 0 rows/s, 2 workers",
        "400 of 1000 rows (40%), 100 rows/s, 2 workers",
        "1000 of 1000 rows (100%), 100 rows/s, 2 workers",
    ]


def test_what_was_committed_before_does_not_count_as_speed() -> None:
    clock, stream = ManualClock(), io.StringIO()
    display = LineDisplay(clock, stream)
    display.progress(after(900), workers=None)
    clock.advance(10 * NS_PER_SECOND)
    display.progress(after(1000), workers=None)
    assert stream.getvalue().splitlines()[-1] == "1000 of 1000 rows (100%), 10 rows/s"


def test_on_a_terminal_there_is_a_bar_with_rows_speed_and_workers() -> None:
    clock, shown = ManualClock(), io.StringIO()
    console = Console(file=shown, force_terminal=True, width=120, color_system=None)
    display = BarDisplay(clock, console)
    display.stage("checking the inputs")
    display.progress(after(0), workers=2)
    clock.advance(NS_PER_SECOND)
    display.progress(after(500), workers=2)
    display.close()
    last = shown.getvalue().rpartition("scoring")[2]
    for word in ("50%", "500/1000", "500 rows/s", "2 workers"):
        assert word in last
