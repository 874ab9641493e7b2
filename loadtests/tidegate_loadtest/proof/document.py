"""Writes the table of policies into a page, between two marks."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidegate_loadtest.proof.comparing import Row

BEGIN: Final = "<!-- table of policies: begin; `make docs-scheduling` writes it -->"
END: Final = "<!-- table of policies: end -->"
_HEAD: Final = (
    "| profile, objective | curve | slo: goodput/s | p99 ms | missed | best other | goodput/s "
    "| p99 ms | missed | slo : other | |"
)


def markdown(rows: Sequence[Row]) -> str:
    """Write one line a row, and count them first."""
    places = Counter(row.place for row in rows)
    counts = (
        f"slo wins {places['wins']}, ties {places['ties']}, loses {places['loses']} of {len(rows)}."
    )
    lines = [counts, "", _HEAD, "|" + "---|" * _HEAD.count(" | ") + "---|"]
    return "\n".join([*lines, *map(_line, rows)])


def insert(page: Path, table: str) -> None:
    """Replace what stands between the marks of a page.

    Raises:
        ValueError: The page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"{page} lacks the marks {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def _line(row: Row) -> str:
    ours, other = row.ours, row.other
    cells = (
        f"{row.profile}, {row.slo_ms:g} ms",
        row.curve,
        _rate(ours.goodput_rps),
        f"{ours.p99_ms or 0:.1f}",
        f"{ours.missed_ratio:.1%}",
        other.policy,
        _rate(other.goodput_rps),
        f"{other.p99_ms or 0:.1f}",
        f"{other.missed_ratio:.1%}",
        f"{row.ratio:.3f}",
        row.place,
    )
    return f"| {' | '.join(cells)} |"


def _rate(rps: float) -> str:
    return f"{rps:,.0f}" if rps >= 100 else f"{rps:.3g}"  # noqa: PLR2004 - three digits
