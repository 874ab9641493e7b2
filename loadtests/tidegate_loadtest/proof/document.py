"""Writes the table of policies into a page, between two marks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tidegate_loadtest.proof.comparing import FAITHFUL, Place, Row
from tidegate_loadtest.simulate.result import SimulationResult

BEGIN: Final = "<!-- begin: written by `make docs-scheduling` -->"
END: Final = "<!-- end -->"
_WHOLE: Final = 100
"""From here on, decimals of a rate are noise."""
_COLUMNS: Final = (
    *("profile, objective", "curve", "slo goodput/s", "p99 ms", "missed"),
    *(
        "best other",
        "goodput/s",
        "p99 ms",
        "missed",
        "slo by it",
        "slo is",
    ),
)


_PLACES: Final[Mapping[Place, str]] = {"wins": "ahead", "ties": "alike", "loses": "behind"}


def markdown(rows: Sequence[Row]) -> str:
    """Count the rows by who won, and write a line for each."""
    places = Counter(row.place for row in rows)
    faithful = sum(row.other.missed_ratio <= FAITHFUL for row in rows)
    counts = (
        f"`slo` is ahead in {places['wins']}, alike in {places['ties']} and behind in "
        f"{places['loses']} of {len(rows)}. At most, it missed "
        f"{max(row.ours.missed_ratio for row in rows):.1%} of what it accepted. The best other "
        f"missed {FAITHFUL:.0%} or less in {faithful} of them, and in the middle "
        f"{median(row.other.missed_ratio for row in rows):.0%}."
    )
    lines = [counts, "", _cells(_COLUMNS), _cells(["---"] * len(_COLUMNS))]
    return "\n".join([*lines, *map(_line, rows)])


def insert(page: Path, table: str) -> None:
    """Replace what stands between the marks of a page.

    Raises:
        ValueError: The page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{page} lacks the marks {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _line(row: Row) -> str:
    return _cells(
        [
            f"{row.profile}, {row.slo_ms:g} ms",
            row.curve,
            *_figures(row.ours),
            row.other.policy,
            *_figures(row.other),
            f"{row.ratio:.3f}",
            _PLACES[row.place],
        ]
    )


def _figures(result: SimulationResult) -> Sequence[str]:
    rps, p99_ms = result.goodput_rps, result.p99_ms or 0.0
    return [
        f"{rps:,.0f}" if rps >= _WHOLE else f"{rps:.3g}",
        f"{p99_ms:.4g}",
        f"{result.missed_ratio:.1%}",
    ]


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
