"""Medians of the rounds, and the targets that they are held to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tidegate_loadtest.peers.bare import Bare, rows_per_s_at
from tidegate_loadtest.peers.measuring import Run, grouped
from tidegate_loadtest.peers.work import SMALL, WIDE, Form
from tidegate_loadtest.proof.targets import Line

OURS: Final = "tidegate"
_OTHERS_OF_OURS: Final = "tidegate-uvicorn"
_SMALL_RATIOS: Final = {32: 2.5, 128: 1.3}
"""Least times the best other server, by connections."""
_WIDE_RATIO: Final = 1.1
_BARE_SHARE: Final = 0.95
_ADDED_MS: Final = {"p50": 0.3, "p99": 1.0}
"""Most that one caller alone waits longer than for the bare call."""
_MANY: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The median of one measurement."""

    server: str
    model: str
    form: Form
    connections: int
    rps: float
    p50_ms: float
    p99_ms: float
    errors: int
    """Of all rounds together."""
    batch_rows: float | None

    def text(self) -> str:
        """Write one line of the table."""
        rows = "" if self.batch_rows is None else f"{self.batch_rows:.1f}"
        return (
            f"{self.model:6} {self.form:7} {self.connections:>4}  {self.server:17} "
            f"{self.rps:>10,.0f} {self.p50_ms:>9.2f} {self.p99_ms:>9.2f} {self.errors:>7} {rows:>6}"
        )


HEAD: Final = (
    f"{'model':6} {'form':7} {'conn':>4}  {'server':17} {'answers/s':>10} {'p50 ms':>9} "
    f"{'p99 ms':>9} {'errors':>7} {'batch':>6}"
)


def rows_of(runs: Sequence[Run]) -> Sequence[Row]:
    """Take the medians, sorted as a reader compares: the same work side by side, best first."""
    rows = [
        Row(
            server=server,
            model=model,
            form=form,
            connections=connections,
            rps=median(run.measured.answered_rps for run in group),
            p50_ms=median(run.measured.p50_ms for run in group),
            p99_ms=median(run.measured.p99_ms for run in group),
            errors=sum(run.measured.errors for run in group),
            batch_rows=_median([run.batch_rows for run in group]),
        )
        for (server, model, form, connections), group in grouped(runs).items()
    ]
    return sorted(rows, key=lambda row: (row.model, row.form, row.connections, -row.rps))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def judge(rows: Sequence[Row], bare: Mapping[str, Sequence[Bare]]) -> Sequence[Line]:
    """Hold what was measured to its targets; what was not is said to be unknown."""
    lines = [_against_peers(rows, SMALL.name, c, low) for c, low in _SMALL_RATIOS.items()]
    lines += [_against_peers(rows, WIDE.name, c, _WIDE_RATIO) for c in _SMALL_RATIOS]
    lines += [_against_bare(rows, bare, c) for c in _SMALL_RATIOS]
    lines += _added(rows, bare)
    lines += [_grpc(rows, c) for c in _SMALL_RATIOS]
    return [*lines, *(_errors(rows, model) for model in (SMALL.name, WIDE.name))]


def _find(rows: Sequence[Row], model: str, connections: int) -> Row | None:
    wanted = (OURS, model, Form.JSON, connections)
    found = (r for r in rows if (r.server, r.model, r.form, r.connections) == wanted)
    return next(found, None)


def _against_peers(rows: Sequence[Row], model: str, connections: int, low: float) -> Line:
    ours = _find(rows, model, connections)
    others = [
        row
        for row in rows
        if (row.model, row.form, row.connections) == (model, Form.JSON, connections)
        and row.server not in {OURS, _OTHERS_OF_OURS}
    ]
    best = max(others, key=lambda row: row.rps, default=None)
    figure, note = None, ""
    if ours is not None and best is not None and best.rps > 0:
        figure = ours.rps / best.rps
        note = f"{ours.rps:,.0f}/s, {best.server} {best.rps:,.0f}/s"
    what = f"answers/s of the best other server, JSON, {connections} connections"
    return Line(where=model, what=what, figure=figure, low=low, note=note)


def _against_bare(
    rows: Sequence[Row], bare: Mapping[str, Sequence[Bare]], connections: int
) -> Line:
    ours, alone = _find(rows, WIDE.name, connections), bare.get(WIDE.name)
    figure, note = None, ""
    if ours is not None and ours.batch_rows is not None and alone:
        bare_rps = rows_per_s_at(alone, ours.batch_rows)
        figure = ours.rps / bare_rps
        note = f"at {ours.batch_rows:.1f} rows a call the session alone does {bare_rps:,.0f}/s"
    what = f"share of the bare session's rows/s, {connections} connections"
    return Line(where=WIDE.name, what=what, figure=figure, low=_BARE_SHARE, unit="%", note=note)


def _grpc(rows: Sequence[Row], connections: int) -> Line:
    """Compare with the only other server here that speaks it; there is no target, but advice."""
    rates = {
        (row.server, row.form): row.rps
        for row in rows
        if (row.model, row.connections) == (SMALL.name, connections)
    }
    ours, theirs = rates.get((OURS, Form.GRPC)), rates.get(("triton", Form.GRPC))
    over_http = rates.get((OURS, Form.JSON))
    times = f"{over_http / ours:.1f} times as many" if ours and over_http else "-"
    return Line(
        where=SMALL.name,
        what=f"answers/s of Triton's gRPC, {connections} connections",
        figure=ours / theirs if ours and theirs else None,
        note=f"no target; by JSON over HTTP Tidegate answers {times}",
    )


def _added(rows: Sequence[Row], bare: Mapping[str, Sequence[Bare]]) -> Sequence[Line]:
    ours, alone = _find(rows, SMALL.name, 1), bare.get(SMALL.name)
    added = (
        {"p50": None, "p99": None}
        if ours is None or not alone
        else {
            "p50": ours.p50_ms - alone[0].p50_ms,
            "p99": ours.p99_ms - alone[0].p99_ms,
        }
    )
    return [
        Line(
            where=SMALL.name,
            what=f"{quantile} that one caller waits longer than for the bare call",
            figure=figure,
            high=_ADDED_MS[quantile],
            unit="ms",
        )
        for quantile, figure in added.items()
    ]


def _errors(rows: Sequence[Row], model: str) -> Line:
    ours = _find(rows, model, _MANY)
    return Line(
        where=model,
        what=f"errors at {_MANY} connections",
        figure=None if ours is None else float(ours.errors),
        high=0,
    )
