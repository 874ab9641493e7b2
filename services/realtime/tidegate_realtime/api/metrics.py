"""Counting on the hot path: plain integers in dictionaries, read when somebody scrapes.

Labels are bounded: a model or version that is not served counts as ``unknown``, reasons are the
codes of ``error_map``. At every moment arrivals = the sum of all outcomes + in flight.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from tidegate.clock import Clock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.settings import LatencyObjective
from tidegate.units import NS_PER_SECOND, Nanoseconds, ns_to_seconds
from tidegate_realtime.api.histogram import Histogram
from tidegate_realtime.api.spending import CallTimes, Stages
from tidegate_realtime.api.tracing import StageTimes
from tidegate_realtime.core.forecasts import RATIO_EDGES
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.statistics import REFUSAL_CODES
from tidegate_realtime.runtime.ports import Backend, BatchResult, Call

UNKNOWN: Final = "unknown"
_OBJECTIVE_EDGES: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 4.0, 8.0)
_SIGNIFICANT: Final = ".6g"
_REFUSAL_EDGES_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""0.5 ms, in which most are told; and what somebody may stand by who has a second."""

GUARDS: Final = (
    "cross_site",
    "forbidden",
    "host_not_allowed",
    "method_not_allowed",
    "route_not_found",
    "unauthenticated",
    "uri_too_long",
)
"""Codes of what stands before every route."""


class OutcomeLabel(StrEnum):
    """The five ways in which a request ends."""

    ANSWERED = "answered"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


_REFUSALS: Final = frozenset(REFUSAL_CODES)


def objective_edges_s(objective: LatencyObjective) -> tuple[float, ...]:
    """Return bucket edges in seconds, the objective among them: the share above it is exact."""
    slo_s = ns_to_seconds(objective.slo_ns)
    return tuple(float(f"{slo_s * factor:{_SIGNIFICANT}}") for factor in _OBJECTIVE_EDGES)


class SloCounts:
    """The requests of one version that count for its objective."""

    __slots__ = ("good", "requests")

    def __init__(self) -> None:
        self.requests = 0
        """That have ended."""
        self.good = 0
        """Of these, answered in time."""


class EndedKey(NamedTuple):
    """The labels of ``tidegate_requests_total``."""

    model: str
    version: str
    outcome: OutcomeLabel
    reason: str


class VersionCounts:
    """The requests of one version that have ended: found once a request, then plain sums."""

    __slots__ = ("answered", "durations", "refusal_times", "slo", "stages", "unanswered")

    def __init__(self, objective: LatencyObjective) -> None:
        self.answered = 0
        self.unanswered: Counter[tuple[OutcomeLabel, str]] = Counter()
        """By outcome and reason."""
        self.durations = Histogram(objective_edges_s(objective))
        """Of what the model answered, or was too late for: a refusal is quick, and would make the
        model look so."""
        self.refusal_times = Histogram(_REFUSAL_EDGES_S)
        """Of what the scheduler refused, from the last byte to the refusal."""
        self.stages = Stages()
        self.slo = SloCounts()

    def on_answer(self, took_ns: int) -> None:
        """Count a request that was answered, and how long that took from its last byte."""
        self.answered += 1
        self.durations.observe(took_ns / NS_PER_SECOND)

    def on_end(self, outcome: OutcomeLabel, reason: str, *, took_ns: int) -> None:
        """Count one that ended otherwise."""
        self.unanswered[outcome, reason] += 1
        self.stages.on_refusal(took_ns)
        if outcome is OutcomeLabel.EXPIRED:
            self.durations.observe(ns_to_seconds(took_ns))
        elif reason in _REFUSALS:
            self.refusal_times.observe(ns_to_seconds(took_ns))

    def by_label(self) -> Iterator[tuple[OutcomeLabel, str, int]]:
        """Yield each outcome that there was, its reason, and how often."""
        if self.answered:
            yield OutcomeLabel.ANSWERED, "", self.answered
        for (outcome, reason), times in self.unanswered.items():
            yield outcome, reason, times


class GatewayMetrics:
    """What this process has seen of prediction requests."""

    def __init__(self, *, traces_stages: bool = False) -> None:
        """Begin with no version.

        Args:
            traces_stages: Whether to time each stage of each request, besides adding them up.
        """
        self._traces_stages = traces_stages
        self._arrived: dict[str, int] = {}
        self.versions: dict[tuple[str, str], VersionCounts] = {}
        """By model and version; whoever knows the version of a request counts its end there."""
        self._unknown: Counter[EndedKey] = Counter()
        self.refusals: Counter[str] = Counter(dict.fromkeys(GUARDS, 0))
        """By code; of requests that are no predictions, which ``ended`` counts."""
        self.stage_times: dict[tuple[str, str], StageTimes] = {}
        """Empty, unless somebody wants them."""
        self.reading_times: dict[tuple[str, str], Histogram] = {}
        """Of texts and images, on the thread that decodes them; no version has any at first."""
        self.waiting_to_be_read: Callable[[], int] = int
        """How many have no thread yet; to be set by whoever knows."""

    def add_version(self, model: str, version: str, objective: LatencyObjective) -> None:
        """Make a model's series exist before its first request; those of a known one stay."""
        self._arrived.setdefault(model, 0)
        self.versions.setdefault((model, version), VersionCounts(objective))
        if self._traces_stages:
            self.stage_times.setdefault((model, version), StageTimes())

    @property
    def arrivals(self) -> Counter[str]:
        """Requests whose headers have been read, by model."""
        return Counter(self._arrived)

    @property
    def ended(self) -> Counter[EndedKey]:
        """Requests that have ended, by how."""
        found = self._unknown.copy()
        for version, counts in self.versions.items():
            for outcome, reason, times in counts.by_label():
                found[EndedKey(*version, outcome, reason)] = times
        return found

    @property
    def in_flight(self) -> Counter[str]:
        """Requests that have arrived and not ended, by model."""
        found = self.arrivals
        for key, times in self.ended.items():
            found[key.model] -= times
        return found

    @property
    def durations(self) -> Mapping[tuple[str, str], Histogram]:
        """Of each version, as the three that follow; see ``VersionCounts``."""
        return {version: counts.durations for version, counts in self.versions.items()}

    @property
    def refusal_times(self) -> Mapping[tuple[str, str], Histogram]:
        """Of each version."""
        return {version: counts.refusal_times for version, counts in self.versions.items()}

    @property
    def stages(self) -> Mapping[tuple[str, str], Stages]:
        """Of each version."""
        return {version: counts.stages for version, counts in self.versions.items()}

    @property
    def slo(self) -> Mapping[tuple[str, str], SloCounts]:
        """Of each version."""
        return {version: counts.slo for version, counts in self.versions.items()}

    def refused(self, code: str) -> None:
        """Count a request that was refused before anybody knew what it wants, or may want it."""
        if code in self.refusals:
            self.refusals[code] += 1

    def arrived(self, model: str) -> None:
        """Count a request whose headers have been read."""
        self._arrived[model] = self._arrived.get(model, 0) + 1

    def ended_without_version(self, model: str, outcome: OutcomeLabel, reason: str) -> None:
        """Count how a request ended for which no version was found; see ``versions`` for others."""
        self._unknown[EndedKey(model, UNKNOWN, outcome, reason)] += 1

    def read(self, model: str, version: str, took_ns: int) -> None:
        """Count that a thread has decoded the texts or images of a request, wanted or not."""
        seconds = self.reading_times.setdefault((model, version), Histogram(_READING_EDGES_S))
        seconds.observe(ns_to_seconds(Nanoseconds(took_ns)))


_EXECUTION_EDGES_S: Final = tuple(
    scale * step for scale in (1e-4, 1e-3, 1e-2, 1e-1, 1.0) for step in (1, 2.5, 5)
)
"""0.1 ms to 5 s: a small network for one row, a large one for a full batch."""
_READING_EDGES_S: Final = _EXECUTION_EDGES_S
"""Nearly as wide: 0.1 ms for a short text, seconds for a hundred photos."""


def _nobody(inputs: Tensors) -> None:
    """Promise nothing."""


class MeasuredBackend:
    """A backend that notes how long each batch took, from ``begin`` to ``done``.

    What it counts is written by the backend's threads; with one executor that is one of them.
    """

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self.calls = CallTimes()
        self.model_of: Callable[[Tensors], LatencyModel | None] = _nobody
        """Who says what is promised of a call with such inputs; to be set once somebody does."""
        self.stage_times: StageTimes | None = None
        """Told of each call, where somebody wants them."""
        self.forget()

    def forget(self) -> None:
        """Start anew: what was measured while warming up is no answer to anybody."""
        self.seconds = Histogram(_EXECUTION_EDGES_S)
        self.forecast = Histogram(RATIO_EDGES)
        """Duration of a call by what was promised of its size when it began."""
        self.calls.clear()
        self.padding_rows = 0
        """Rows that were computed only because the model allows no smaller batch."""

    @property
    def executors(self) -> int:
        """As the backend says."""
        return self._backend.executors

    @property
    def fixed_rows(self) -> int | None:
        """As the backend says."""
        return self._backend.fixed_rows

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> Call:
        """Start one batch and the watch."""
        self.padding_rows += (self.fixed_rows or rows) - rows
        model = self.model_of(inputs)
        promised_ns = model.tail_ns(rows) if model and rows <= model.largest_size else 0
        began_at_ns = self._clock.now_ns()
        if self.stage_times is not None:
            self.stage_times.on_begin(began_at_ns)

        def stop_watch(result: BatchResult) -> None:
            took_ns = self._clock.now_ns() - began_at_ns
            self.seconds.observe(ns_to_seconds(took_ns))
            if not isinstance(result, BackendError):
                self.calls.note(rows, took_ns)
                if promised_ns:
                    self.forecast.observe(took_ns / promised_ns)
            done(result)

        return self._backend.begin(inputs, rows=rows, done=stop_watch)

    def replace(self, call: Call, *, ready: Callable[[BackendError | None], None]) -> None:
        """As the backend does."""
        self._backend.replace(call, ready=ready)

    def close(self) -> None:
        """Close the backend; blocks as it does."""
        self._backend.close()
