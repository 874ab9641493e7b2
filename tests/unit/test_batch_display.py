"""What a person sees of a job."""

import io
from datetime import UTC, datetime

from rich.console import Console

from tidegate.clock import ManualClock
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.chunks import QueueStatistics
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.wishes import Deadline
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
        "400 of 1000 rows (40%), 100 rows/s, about 6 s left, 2 workers",
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
    for word in ("50%", "500/1000", "500 rows/s", "about 1 s left", "2 workers"):
        assert word in last


def test_what_is_known_of_the_end_and_of_bad_rows_is_shown_in_words() -> None:
    stream = io.StringIO()
    known = Outlook(rows_per_s=2000, eta_s=300, eta_low_s=240, eta_high_s=540)
    LineDisplay(ManualClock(), stream).progress(after(500), workers=1, outlook=known, rows_dlq=3)
    assert stream.getvalue() == (
        "500 of 1000 rows (50%), 2,000 rows/s, 4 to 9 min left, 3 bad rows, 1 worker\n"
    )


def test_the_bar_fits_into_a_narrow_terminal() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, color_system=None)
    display = BarDisplay(ManualClock(), console)
    known = Outlook(rows_per_s=3111, eta_s=300, eta_low_s=61, eta_high_s=5000)
    display.progress(after(500), workers=12, outlook=known, rows_dlq=3)
    display.close()
    drawn = shown.getvalue().rpartition("scoring")[2].splitlines()
    assert drawn[0].endswith("50%  500/1000")
    assert drawn[1].endswith("3,111 rows/s · 61 s to 83 min left · 3 bad rows · 12 workers")


class Noon:
    """A wall clock that stands still."""

    def utc_now(self) -> datetime:
        return datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def test_a_job_that_will_miss_its_time_says_so_while_it_runs() -> None:
    stream = io.StringIO()
    deadline = Deadline(datetime(2026, 12, 1, 12, 5, tzinfo=UTC))
    display = build_display(ManualClock(), stream=stream, wall=Noon(), deadline=deadline)
    late = Outlook(rows_per_s=1, eta_s=400, eta_low_s=301, eta_high_s=500)
    display.progress(after(500), workers=None, outlook=late)
    display.progress(after(1000), workers=None, outlook=late)
    assert stream.getvalue().splitlines() == [
        "500 of 1000 rows (50%), 1 rows/s, 5 to 8 min left, will miss 12:05 UTC",
        "1000 of 1000 rows (100%), 1 rows/s",
    ]
