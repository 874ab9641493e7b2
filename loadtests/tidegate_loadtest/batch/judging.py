"""Medians of the rounds, and the targets that they are held to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tidegate_loadtest.batch.contenders import Contender
from tidegate_loadtest.batch.job import PARTS
from tidegate_loadtest.batch.measuring import Run
from tidegate_loadtest.peers.work import SMALL, WIDE
from tidegate_loadtest.proof.targets import Line

BARE_SHARE: Final = 0.95
RAY_DATA_TIMES: Final = 1.5
S3_SHARE: Final = 0.9
SCALAR_TIMES: Final = 5
NIGHT_ROWS: Final = 14_000_000
NIGHT_MINUTES: Final = 75
_ENGINES: Final = (Contender.TIDEGATE_RAY, Contender.TIDEGATE_LOCAL)
_BARE: Final = (Contender.BARE, Contender.BARE_128)
_ELSEWHERE: Final = {
    "killed workers and drivers change nothing": "make chaos-batch",
    "three drivers leave one copy of each row": "pytest tests/integration/test_batch_drivers.py",
    "memory of a worker": "not of this command",
    "first new chunk after a driver died": "not of this command",
}
"""Targets of offline jobs that are no matter of speed, and what shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The medians of one contender on one work."""

    contender: Contender
    work: str
    rows: int
    runs: int
    whole_s: float
    working_s: float
    split_s: Mapping[str, float]

    @property
    def whole_rows_per_s(self) -> float:
        """Its start included."""
        return self.rows / self.whole_s

    @property
    def working_rows_per_s(self) -> float:
        """Its start excluded."""
        return self.rows / self.working_s

    def seconds_for(self, rows: int) -> float:
        """Return how long other rows would take: its start, and each row at its own pace."""
        return self.whole_s - self.working_s + rows / self.working_rows_per_s

    def text(self) -> str:
        """Write one line of the table."""
        return (
            f"{self.work:6} {self.contender:17} {self.rows:>10,} {self.runs:>5} "
            f"{self.whole_s:>9.1f} {self.whole_rows_per_s:>11,.0f} "
            f"{self.working_s:>9.1f} {self.working_rows_per_s:>11,.0f}"
        )


HEAD: Final = (
    f"{'model':6} {'contender':17} {'rows':>10} {'runs':>5} "
    f"{'whole s':>9} {'rows/s':>11} {'working s':>9} {'rows/s':>11}"
)

Rows = Mapping[tuple[str, Contender], Row]


def rows_of(runs: Sequence[Run]) -> Rows:
    """Take the medians, sorted by model and then the fastest first."""
    groups: dict[tuple[str, Contender], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.work, run.contender), []).append(run)
    rows = {key: _row(group) for key, group in groups.items()}
    return dict(sorted(rows.items(), key=lambda item: (item[0][0], -item[1].whole_rows_per_s)))


def _row(runs: Sequence[Run]) -> Row:
    return Row(
        contender=runs[0].contender,
        work=runs[0].work,
        rows=runs[0].rows,
        runs=len(runs),
        whole_s=median(run.whole_s for run in runs),
        working_s=median(run.working_s for run in runs),
        split_s={part: median(run.split_s.get(part, 0.0) for run in runs) for part in PARTS},
    )


def judge(rows: Rows) -> Sequence[Line]:
    """Hold what was measured to its targets; what was not is said to be unknown."""
    lines: list[Line] = []
    for engine in _ENGINES:
        lines += _against_bare(rows, engine)
        lines.append(_against_ray_data(rows, engine, WIDE.name, low=RAY_DATA_TIMES))
    lines.append(_against_local(rows))
    for engine in _ENGINES:
        lines.append(_against_scalar(rows, engine))
        lines.append(_against_ray_data(rows, engine, SMALL.name, low=None))
        lines.append(_split(rows, engine))
    lines.append(_night(rows))
    return [*lines, *(Line(where="-", what=w, figure=None, note=n) for w, n in _ELSEWHERE.items())]


def _against_bare(rows: Rows, engine: Contender) -> Sequence[Line]:
    """Compare with the bare session at the size of batch that suits it best."""
    ours = rows.get((WIDE.name, engine))
    bare = [rows[WIDE.name, each] for each in _BARE if (WIDE.name, each) in rows]
    working = max(bare, key=lambda row: row.working_rows_per_s, default=None)
    whole = max(bare, key=lambda row: row.whole_rows_per_s, default=None)
    return [
        Line(
            where=WIDE.name,
            what=f"{engine}: share of the bare rows/s, start excluded",
            figure=ours.working_rows_per_s / working.working_rows_per_s
            if ours and working
            else None,
            low=BARE_SHARE,
            unit="%",
            note=_beside(ours, working, "working_rows_per_s"),
        ),
        Line(
            where=WIDE.name,
            what=f"{engine}: the same, start included",
            figure=ours.whole_rows_per_s / whole.whole_rows_per_s if ours and whole else None,
            low=BARE_SHARE,
            unit="%",
            note=_beside(ours, whole, "whole_rows_per_s"),
        ),
    ]


def _beside(ours: Row | None, other: Row | None, figure: str) -> str:
    if ours is None or other is None:
        return ""
    return f"{getattr(ours, figure):,.0f}/s, {other.contender} {getattr(other, figure):,.0f}/s"


def _against_ray_data(rows: Rows, engine: Contender, work: str, *, low: float | None) -> Line:
    ours, theirs = rows.get((work, engine)), rows.get((work, Contender.RAY_DATA))
    return Line(
        where=work,
        what=f"{engine}: times Ray Data, start included",
        figure=ours.whole_rows_per_s / theirs.whole_rows_per_s if ours and theirs else None,
        low=low,
        note=_beside(ours, theirs, "whole_rows_per_s"),
    )


def _against_local(rows: Rows) -> Line:
    there = rows.get((WIDE.name, Contender.TIDEGATE_S3))
    here = rows.get((WIDE.name, Contender.TIDEGATE_LOCAL))
    return Line(
        where=WIDE.name,
        what="rows/s on S3 on loopback, share of the local disk",
        figure=there.whole_rows_per_s / here.whole_rows_per_s if there and here else None,
        low=S3_SHARE,
        unit="%",
        note=_beside(there, here, "whole_rows_per_s"),
    )


def _against_scalar(rows: Rows, engine: Contender) -> Line:
    ours, loop = rows.get((SMALL.name, engine)), rows.get((SMALL.name, Contender.SCALAR))
    figure, note = None, ""
    if ours is not None and loop is not None:
        loop_s = loop.seconds_for(ours.rows)
        figure = loop_s / ours.whole_s
        note = (
            f"{ours.whole_s:.1f} s; the loop, one process, {loop_s:.1f} s, extrapolated from "
            f"{loop.rows:,} rows"
        )
    what = f"{engine}: times the scalar loop, start included"
    return Line(where=SMALL.name, what=what, figure=figure, low=SCALAR_TIMES, note=note)


def _split(rows: Rows, engine: Contender) -> Line:
    """Say whether the model or everything around it takes the time; there is no target."""
    ours = rows.get((SMALL.name, engine))
    figure, note = None, ""
    total_s = sum(ours.split_s.values()) if ours else 0
    if ours is not None and total_s > 0:
        figure = 1 - ours.split_s["score"] / total_s
        parts = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in ours.split_s.items())
        note = f"no target; of all workers together {parts}"
    what = f"{engine}: share of reading, encoding, storing"
    return Line(where=SMALL.name, what=what, figure=figure, unit="%", note=note)


def _night(rows: Rows) -> Line:
    """Extrapolate to the job that has a night's hour and a quarter."""
    ours = rows.get((WIDE.name, Contender.TIDEGATE_LOCAL))
    needed = NIGHT_ROWS / (NIGHT_MINUTES * 60)
    figure, note = None, f"14 M rows / 4,500 s = {needed:,.0f}/s"
    if ours is not None:
        figure = ours.whole_rows_per_s
        minutes = NIGHT_ROWS / figure / 60
        note += (
            f"; at {figure:,.0f}/s they take 14 M / {figure:,.0f}/s = {minutes:.0f} min: "
            f"extrapolated from {ours.rows:,} rows, not run"
        )
    return Line(
        where=WIDE.name,
        what=f"{Contender.TIDEGATE_LOCAL}: rows/s, for 14 M rows in 75 min",
        figure=figure,
        low=needed,
        unit="/s",
        note=note,
    )
