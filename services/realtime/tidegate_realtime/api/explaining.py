"""Why batches are as large as they are now, in words, and what would change it.

A decision only: observed numbers in, sentences out. Who asks "why is there no batching?" nearly
always has too few concurrent callers (tensorflow/serving#1312, mosec#338): a caller that waits for
its answer before it asks again has one request in progress, so that n of them can never fill more
than n places, and the model's time per call does not matter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from tidegate_realtime.api.caps import CapLimit, CapNumbers
from tidegate_realtime.core.pace import LOAD_SHARE
from tidegate_realtime.core.statistics import DispatchReason, RefusalCode

_FULL: Final = 0.9
"""Of the cap; the last batch of a burst is rarely full."""
_BUSY: Final = 0.5
"""Below, most requests find an idle executor, and go at once."""
_OFTEN: Final = 0.2
"""Of all batches: enough to say that it shapes them."""
_SLOWER: Final = 1.1
"""Ten percent slower than foretold is more than noise, after 200 batches."""
_STEADY: Final = 1.25
"""Callers that wait for their answers are always as many. Others come by chance, and if there are
n on average there will soon be n + 2·√n, which for less than 64 is more than this many times n."""


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
    refused: Mapping[RefusalCode, int]
    """Requests that the scheduler refused, by code."""
    held_in_vain: int
    """Of these, requests that had stood by before."""
    refusal_ms: float
    """From the last byte of a request to its refusal, on average."""
    in_progress: float
    """Requests, on average."""
    most_in_progress: int
    """Requests that were seen at once."""
    batches: int
    """Model calls that were started."""
    rows: int
    """Rows in them."""
    reasons: Mapping[DispatchReason, int]
    """Model calls by dispatch reason."""
    call_ms: float
    """Mean duration of a call."""
    busy_ratio: float
    """Share of the executors' time that was spent in calls."""
    arriving_per_second: float
    """Rows, refused ones too."""
    capacity_per_second: float
    """Rows that all executors take with full batches."""
    objective_percentile: float
    promised_percentile: float
    """Below that of the objective while nobody could be promised an answer at it."""
    slower_ratio: float
    """How much longer the latest calls took than was foretold; 1 if foretold right."""
    terminated: int
    """Calls that were asked to end early."""
    given_up: int
    """Executors whose call hung."""
    executors: int
    """That this version has."""
    executors_usable: int
    """Of these, without what is being replaced now."""
    sharing: Sequence[str]
    """Other versions on the same executors."""
    others_busy_ratio: float
    """Share of the executors' time that these took."""
    tokens: str | None = None
    """Of texts, how long those are that the cap and the time of one row are of: they took most of
    the time."""

    @property
    def executors_missing(self) -> int:
        """Executors that are being replaced."""
        return self.executors - self.executors_usable

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has happened."""
        return not (self.asked or self.batches or self.given_up or self.executors_missing)

    @property
    def asked(self) -> int:
        """Requests that have ended, but for those whose callers left."""
        return self.answered + self.expired + sum(self.refused.values())

    @property
    def has_steady_callers(self) -> bool:
        """Whether there were always about as many requests in progress."""
        return self.most_in_progress <= _STEADY * self.in_progress + 1

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
    if observed.is_quiet:
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


def _refused(observed: Observed) -> Iterator[Finding]:
    for code, count in sorted(observed.refused.items(), key=lambda item: -item[1]):
        why, change = _REFUSALS[code]
        if code == "deadline_unreachable" and _is_overloaded(observed):
            why = (
                f": {observed.arriving_per_second:.0f} rows/s arrive, and full batches take "
                f"{observed.capacity_per_second:.0f}"
            )
            change = "add replicas, use a faster variant, or send less"
        yield Finding(
            kind=code,
            said=f"{count} of {observed.asked} requests were refused as {code}{why}.",
            change=change,
        )
    yield from _refused_late(observed)


def _refused_late(observed: Observed) -> Iterator[Finding]:
    refused = sum(observed.refused.values())
    if refused and observed.held_in_vain >= _OFTEN * refused:
        yield Finding(
            kind="stood_by",
            said=f"{observed.held_in_vain} of these {refused} were told late: they stood by while "
            "it depended on others whether the next call has a place. A refusal took "
            f"{observed.refusal_ms:.3g} ms on average.",
            change="as above; who must know sooner sends a shorter Tidegate-Deadline-Ms",
        )


def _is_overloaded(observed: Observed) -> bool:
    return observed.arriving_per_second > LOAD_SHARE * observed.capacity_per_second > 0


_REFUSALS: Final[Mapping[RefusalCode, tuple[str, str]]] = {
    "deadline_unreachable": (
        ": they came in bursts, or asked for less time than what was ahead of them takes",
        "spread them, allow more time (Tidegate-Deadline-Ms, slo_ms), or add replicas",
    ),
    "queue_full": (
        ": more rows or bytes were waiting than may",
        "add replicas, or raise serve.queue_limit_rows",
    ),
    "backend_unavailable": (
        ": every call ran far longer than any before, or what ran it is being replaced",
        "see executor_given_up in the gateway's log; restart it if that lasts",
    ),
    "draining": (": this gateway is shutting down", "send them to another replica"),
}


def _expired(observed: Observed) -> Iterator[Finding]:
    if observed.expired:
        yield Finding(
            kind="expired",
            said=f"{observed.expired} of {_counted(observed.asked, 'request')} had to be given up: "
            "they were accepted, and could not be answered in time any more.",
            change="look for what slowed the model or this machine down; admission learns from it",
        )


def _slower(observed: Observed) -> Iterator[Finding]:
    if observed.slower_ratio >= _SLOWER:
        yield Finding(
            kind="slower",
            said=f"The slowest calls take {observed.slower_ratio:.2f} times as long as was "
            "foretold, so that less is promised.",
            change="look for a neighbour on this machine, a throttled clock or other work in here",
        )


def _relented(observed: Observed) -> Iterator[Finding]:
    asked, promised = observed.objective_percentile, observed.promised_percentile
    if promised < asked:
        yield Finding(
            kind="promised_less",
            said=f"Not even one row was answered within {observed.objective_ms:g} ms at "
            f"p{100 * asked:g} of late. Rather than refuse everybody, answers are promised at "
            f"p{100 * promised:g}: up to {1 - promised:.0%} of them may be late.",
            change="look for a neighbour on this machine or for calls that stall; or raise slo_ms",
        )


def _hung(observed: Observed) -> Iterator[Finding]:
    if observed.given_up:
        yield Finding(
            kind="given_up",
            said=f"{_counted(observed.given_up, 'call')} did not end by far, and had to be left "
            "alone with what ran it.",
            change="look for executor_given_up in the gateway's log, and for what the model does",
        )
    if observed.executors_missing:
        yield Finding(
            kind="replacing",
            said=f"{observed.executors_missing} of {_counted(observed.executors, 'executor')} hung "
            "and is being replaced.",
            change="wait; if that lasts, executor_not_replaced in the gateway's log says why",
        )


def _terminated(observed: Observed) -> Iterator[Finding]:
    if observed.terminated >= _OFTEN * max(1, observed.batches):
        yield Finding(
            kind="terminated",
            said=f"{observed.terminated} of {observed.batches} calls were ended early: all who had "
            "rows in them had left, or were too late.",
            change="let callers whose own timeout is shorter than the objective send it along, as "
            "Tidegate-Deadline-Ms: whoever leaves before the answer takes places from others",
        )


def _shared(observed: Observed) -> Iterator[Finding]:
    if observed.sharing and observed.others_busy_ratio >= _OFTEN:
        yield Finding(
            kind="shared",
            said=f"{', '.join(observed.sharing)} took {observed.others_busy_ratio:.0%} of the time "
            "of the executors that they share with this model.",
            change="serve them from different replicas, or add executors",
        )


_URGENT: Final[tuple[Callable[[Observed], Iterator[Finding]], ...]] = (
    _hung,
    _refused,
    _expired,
    _slower,
    _relented,
    _terminated,
    _shared,
)


def _size(observed: Observed) -> Finding:
    """Say what decided about the size of most batches."""
    rows, full_rows = f"{observed.batch_rows:.1f}", observed.cap.calm
    connections = ceil(observed.in_progress)
    if observed.batch_rows >= _FULL * full_rows:
        return Finding(
            kind="full",
            said=f"Batches are full: they hold {rows} rows, and {_places(observed.cap)}.",
            change="less load, or a larger cap: see below",
        )
    if observed.busy_ratio + observed.others_busy_ratio < _BUSY:
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
    if observed.places < _FULL * full_rows and observed.has_steady_callers:
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


def _places(cap: CapNumbers) -> str:
    if cap.calm == cap.effective:
        return f"{cap.effective} are the most"
    return f"are full with {cap.calm} to {cap.effective}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def _cap(observed: Observed) -> Finding:
    said, change = _CAPS[observed.cap.limited_by]
    rows = _counted(observed.cap.effective, "row")
    tokens = observed.tokens
    texts = f" of texts with {tokens} tokens, which take most of the time," if tokens else ""
    numbers = {
        "objective": f"{observed.objective_ms:g} ms",
        "one_row": f"{observed.one_row_ms:.3g} ms",
        "model": observed.model.partition("@")[0],
    }
    return Finding(
        kind=f"cap_{observed.cap.limited_by}",
        said=f"A batch{texts} may hold {rows}: {said.format(**numbers)}.{_calm(observed.cap)}",
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
