"""Why batches are as large as they are now, in words, and what would change it.

A decision only: observed numbers in, sentences out. Who asks "why is there no batching?" nearly
always has too few concurrent callers (tensorflow/serving#1312, mosec#338): a caller that waits for
its answer before it asks again has one request in progress, so that n of them can never fill more
than n places, and the model's time per call does not matter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, Final

from tidegate_realtime.api.caps import CapLimit, CapNumbers

_FULL: Final = 0.9
"""Of the cap; the last batch of a burst is rarely full."""
_BUSY: Final = 0.5
"""Below, most requests find an idle executor, and go at once."""
_OFTEN: Final = 0.2
"""Of all batches: enough to say that it shapes them."""
_SLOWER: Final = 1.1
"""Ten percent slower than foretold is more than noise, after 200 batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One version over a while that ends now."""

    model: str
    """As people write it: ``risk@7``."""
    window_s: float
    objective_ms: float
    one_row_ms: float
    """What one row takes on an idle executor, at the objective's percentile."""
    cap: CapNumbers
    answered: int
    expired: int
    refused: Mapping[str, int]
    """Requests that the scheduler refused, by code."""
    in_progress: float
    """Requests, on average."""
    batches: int
    """Model calls that were started."""
    rows: int
    """Rows in them."""
    reasons: Mapping[str, int]
    """Model calls by dispatch reason."""
    call_ms: float
    """Mean duration of a call."""
    busy_ratio: float
    """Share of the executors' time that was spent in calls."""
    arriving_per_second: float
    """Rows, refused ones too."""
    capacity_per_second: float
    """Rows that all executors take with full batches."""
    slower_ratio: float
    """How much longer the latest calls took than was foretold; 1 if foretold right."""

    @property
    def batch_rows(self) -> float:
        """Rows of a call, on average."""
        return self.rows / self.batches if self.batches else 0.0

    @property
    def places(self) -> int:
        """Rows that can be in progress at once, with as many callers as there are."""
        asked = self.answered + self.expired
        return ceil(self.in_progress * (self.rows / asked if asked else 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is so, and what would change it."""

    kind: str
    """For programs: it never changes its meaning."""
    said: str
    change: str


def explain(observed: Observed) -> list[Finding]:
    """Say what shapes the batches, the most urgent first; the last one is always about the cap."""
    if not (observed.answered or observed.expired or observed.refused or observed.batches):
        quiet = Finding(
            kind="quiet",
            said=f"Nobody has asked {observed.model} for {observed.window_s:.3g} s.",
            change="ask again while there is traffic, or with a longer --window-s",
        )
        return [quiet, _cap(observed)]
    found = [finding for look in _URGENT for finding in look(observed)]
    if observed.batches:
        found.append(_size(observed))
    return [*found, _cap(observed)]


def explanation(observed: Observed) -> dict[str, Any]:
    """Write what was observed and found as JSON can say it."""
    return {
        **asdict(observed),
        "cap": observed.cap._asdict(),
        "batch_rows": observed.batch_rows,
        "findings": [asdict(finding) for finding in explain(observed)],
    }


def _refused(observed: Observed) -> Iterator[Finding]:
    asked = observed.answered + observed.expired + sum(observed.refused.values())
    for code, count in sorted(observed.refused.items(), key=lambda item: -item[1]):
        why, change = _REFUSALS.get(code, ("", "see docs/errors.md"))
        if code == "deadline_unreachable" and _is_overloaded(observed):
            why = (
                f": {observed.arriving_per_second:.0f} rows/s arrive, and "
                f"{observed.capacity_per_second:.0f} can be taken"
            )
            change = "add replicas, use a faster variant, or send less"
        yield Finding(
            kind=code,
            said=f"{count} of {asked} requests were refused as {code}{why}.",
            change=change,
        )


def _is_overloaded(observed: Observed) -> bool:
    return observed.arriving_per_second > observed.capacity_per_second > 0


_REFUSALS: Final = {
    "deadline_unreachable": (
        ": they came in bursts, or asked for less time than what was ahead of them takes",
        "spread them, allow more time (Tidegate-Deadline-Ms, slo_ms), or add replicas",
    ),
    "queue_full": (
        ": more rows or bytes were waiting than may",
        "add replicas, or raise serve.queue_limit_rows",
    ),
    "backend_unavailable": (
        ": every call ran far longer than any before, and may hang",
        "see the gateway's log, and restart it if that lasts",
    ),
    "draining": (": this gateway is shutting down", "send them to another replica"),
}


def _expired(observed: Observed) -> Iterator[Finding]:
    if observed.expired:
        yield Finding(
            kind="expired",
            said=f"{_counted(observed.expired, 'request')} accepted, and not answered in time.",
            change="look for what slowed the model or this machine down; admission learns from it",
        )


def _slower(observed: Observed) -> Iterator[Finding]:
    if observed.slower_ratio >= _SLOWER:
        yield Finding(
            kind="slower",
            said=f"Calls take up to {observed.slower_ratio:.2f} times as long as was foretold, so "
            "that fewer and smaller batches are promised.",
            change="look for a neighbour on this machine, a throttled clock or other work in here",
        )


_URGENT: Final[tuple[Callable[[Observed], Iterator[Finding]], ...]] = (_refused, _expired, _slower)


def _size(observed: Observed) -> Finding:
    """Say what decided about the size of most batches."""
    rows, full_rows = f"{observed.batch_rows:.1f}", observed.cap.calm
    connections = ceil(observed.in_progress)
    if observed.batch_rows >= _FULL * full_rows:
        return Finding(
            kind="full",
            said=f"Batches are full: they hold {rows} of {full_rows} rows.",
            change="a larger cap; see the next line",
        )
    if observed.busy_ratio < _BUSY:
        return Finding(
            kind="idle",
            said=f"The model is idle {1 - observed.busy_ratio:.0%} of the time. A request that "
            f"finds it idle goes at once, so batches hold {rows} rows.",
            change="nothing needs to change: batches grow by themselves with the load",
        )
    if observed.reasons.get("fits", 0) >= _OFTEN * observed.batches:
        return Finding(
            kind="deadlines",
            said=f"{observed.reasons['fits']} of {observed.batches} batches were kept small: with "
            "more rows, the first of them would have been late.",
            change="allow more time: slo_ms, or Tidegate-Deadline-Ms of those who ask",
        )
    if observed.places < _FULL * full_rows:
        return Finding(
            kind="few_callers",
            said=f"Too few concurrent clients: at {_counted(connections, 'connection')} and "
            f"{observed.call_ms:.3g} ms a batch holds at most {observed.places} (now {rows}).",
            change="more clients at a time, or several rows in each request",
        )
    return Finding(
        kind="load",
        said=f"While a call of {observed.call_ms:.3g} ms runs, about {rows} rows arrive, and they "
        "are the next batch.",
        change="nothing needs to change: batches grow by themselves with the load",
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def _cap(observed: Observed) -> Finding:
    said, change = _CAPS[observed.cap.limited_by]
    rows = _counted(observed.cap.effective, "row")
    numbers = {
        "slo_rows": observed.cap.slo,
        "objective": f"{observed.objective_ms:g} ms",
        "one_row": f"{observed.one_row_ms:.3g} ms",
        "model": observed.model.partition("@")[0],
    }
    return Finding(
        kind=f"cap_{observed.cap.limited_by}",
        said=f"A batch may hold {rows}: {said.format(**numbers)}.{_calm(observed.cap)}",
        change=change.format(**numbers),
    )


def _calm(cap: CapNumbers) -> str:
    if cap.calm == cap.effective:
        return ""
    return (
        f" Beyond {cap.calm}, which leave room for who just missed a call, it grows only with rows "
        "that cannot wait for another."
    )


_CAPS: Final[Mapping[CapLimit, tuple[str, str]]] = {
    "slo": (
        "a call with more would not end within {objective}",
        "raise slo_ms, or use a faster variant",
    ),
    "knee": (
        "more would bring less than 3 % more throughput",
        "nothing needs to change: larger batches would only be slower",
    ),
    "memory": ("memory_rows says so", "raise memory_rows in [models.{model}], if there is memory"),
    "measured": (
        "that is the largest size that this model runs, or that was measured",
        "publish the model with a larger or a free batch axis, if it has a fixed one",
    ),
    "too_slow": (
        "not even one is answered within {objective}, for it takes {one_row}",
        "raise slo_ms, use a faster variant, or find out what slows this machine down",
    ),
    "set": ("that is fixed, because nothing is promised of this model", "set slo_ms"),
}
