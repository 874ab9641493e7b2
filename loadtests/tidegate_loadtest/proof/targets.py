"""What a figure must be, and one line that says whether it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["ok", "short", "unknown"]
UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure beside its target; both bounds are included."""

    where: str
    """``simulated``, or what ran live."""
    what: str
    figure: float | None
    """``None``: it could not be measured, and ``note`` says why."""
    low: float | None = None
    high: float | None = None
    unit: Literal["", "%", "ms", "us", "/s"] = ""
    note: str = ""
    """What the reader must know to judge it."""

    @property
    def verdict(self) -> Verdict:
        """Compare; without a figure there is nothing to compare."""
        if self.figure is None:
            return "unknown"
        above = self.low is None or self.figure >= self.low
        below = self.high is None or self.figure <= self.high
        return "ok" if above and below else "short"

    def text(self) -> str:
        """Write where, what, the figure, its target and the verdict."""
        figure = UNKNOWN if self.figure is None else self._number(self.figure)
        note = f"  ({self.note})" if self.note else ""
        return (
            f"{self.where:10} {self.what:56} {figure:>12}  {self._target():>18}  "
            f"{self.verdict}{note}"
        )

    def _target(self) -> str:
        if self.low is None:
            return "" if self.high is None else f"<= {self._number(self.high)}"
        if self.high is None:
            return f">= {self._number(self.low)}"
        return f"{self._number(self.low)} to {self._number(self.high)}"

    def _number(self, value: float) -> str:
        if self.unit == "%":
            return f"{value:.2%}"
        if self.unit == "/s":
            return f"{value:,.0f}/s"
        return f"{value:.2f} {self.unit}".rstrip()


def share(
    where: str,
    what: str,
    figure: float | None,
    *,
    low: float | None = None,
    high: float | None = None,
    note: str = "",
) -> Line:
    """Write a line about a share."""
    return Line(where=where, what=what, figure=figure, low=low, high=high, unit="%", note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How one run did by what was promised in it."""

    covered: float | None
    """Share of the calls that took no longer than was foretold when they began."""
    missed: float
    """Of what was accepted."""
    refused: float
    """Of what arrived."""
    probes: int
    """Refused requests that ran all the same."""
    probes_in_time: int

    @property
    def regret(self) -> float | None:
        """Share of arrivals refused in error, if probes are like the others that were refused."""
        if not self.refused:
            return 0.0
        return self.refused * self.probes_in_time / self.probes if self.probes else None


def promise_lines(where: str, load: float, kept: Promises, *, note: str = "") -> Sequence[Line]:
    """Hold the promises of one run to their targets."""
    at, probes = f"at {load:g}x", f"{kept.probes} probes"
    wrongly = f"refused, though in time by the probe {at}"
    return [
        share(where, f"calls within their L {at}", kept.covered, low=0.985, high=0.995),
        share(where, f"accepted but missed {at}", kept.missed, high=0.01, note=note),
        share(where, wrongly, kept.regret, high=0.02, note=probes),
    ]


def goodput_lines(where: str, load: float, rates_rps: Mapping[float, float]) -> Sequence[Line]:
    """Compare the goodput at one load with the best at any load, and with the best at any lower.

    The first is the target. The second tells a scheduler that loses under overload from one that
    gains by it, as when more rows to choose from make larger batches.
    """
    rate_rps, peak_rps = rates_rps[load], max(rates_rps.values())
    lower_rps = max(rate for other, rate in rates_rps.items() if other < load)
    at = f"at {load:g}x"
    return [
        share(
            where,
            f"goodput of the peak {at}",
            rate_rps / peak_rps if peak_rps else None,
            low=0.95,
            note=f"{rate_rps:.0f}/s of {peak_rps:.0f}/s",
        ),
        share(
            where,
            f"goodput of the best at a lower load {at}",
            rate_rps / lower_rps if lower_rps else None,
            low=0.95,
            note=f"{rate_rps:.0f}/s of {lower_rps:.0f}/s",
        ),
    ]


def agreement(
    where: str, what: str, *, live: float | None, simulated: float | None, unit: Literal["ms", "/s"]
) -> Line:
    """Compare a live figure with the simulated one: within 10 % either way."""
    apart = None if live is None or not simulated else live / simulated - 1
    written = [
        UNKNOWN if each is None else f"{each:.1f}{unit if unit == '/s' else ' ms'}"
        for each in (live, simulated)
    ]
    return Line(
        where=where,
        what=what,
        figure=apart,
        low=-0.10,
        high=0.10,
        unit="%",
        note=f"live {written[0]}, simulated {written[1]}",
    )


def summary(lines: Sequence[Line]) -> str:
    """Count the verdicts."""
    short = sum(line.verdict == "short" for line in lines)
    unknown = sum(line.verdict == "unknown" for line in lines)
    return f"{len(lines) - short - unknown} ok, {short} short, {unknown} not measured"
