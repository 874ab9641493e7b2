"""What one run comes to, by the caller's clock."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.arrivals.port import Instants
from tidegate_loadtest.replay.traffic import LEFT, LOST, NEVER, OPEN, Log

OK, UNAVAILABLE, TIMED_OUT = 200, 503, 504
LATE_NS: Final = 2 * NS_PER_MS
"""A request that leaves this much after its instant was sent late: it is the client's fault."""
LATE_SHARE: Final = 0.01
"""With more late requests than this, the client is part of every p99: the run is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The figures of one run. Latencies count from when a request was *due*."""

    sent: int
    offered_rps: float
    goodput_rps: float
    """Answers in the objective, per second until the last request or the last such answer."""
    in_objective: int
    late: int
    """Answered with 200, after the objective."""
    rejected: Mapping[str, int]
    """Answered with 503, by code."""
    expired: int
    """Answered with 504."""
    left: int
    lost: int
    """The connection closed before the reply."""
    open: int
    """No reply until the run was given up."""
    others: Mapping[str, int]
    """Other replies, by status and code."""
    missed_ratio: float
    """Expired, late, lost or open, of what was neither refused nor left; 0 if nothing was."""
    p50_ms: float | None
    """Of the answers, as are the next two; ``None`` without any."""
    p99_ms: float | None
    mean_ms: float | None
    rejected_p99_ms: float | None
    """From sending to the refusal."""
    late_sends: int
    send_delay_p99_ms: float
    is_valid: bool
    """Whether the client kept to the instants well enough for the figures to be the server's."""

    @classmethod
    def of(cls, log: Log, *, objective_ns: int) -> Self:
        """Add a log up."""
        status, due_ns = log.status, log.at_ns
        ok = status == OK
        took_ns = (log.ended_ns - due_ns)[ok]
        in_objective = int(np.count_nonzero(took_ns <= objective_ns))
        last_ns = int(due_ns[-1]) if due_ns.size else 1
        until_ns = max(last_ns, int(np.max(log.ended_ns[ok][took_ns <= objective_ns], initial=1)))
        counts = Counter(status.tolist())
        missed = counts[TIMED_OUT] + int(ok.sum()) - in_objective + counts[LOST] + counts[OPEN]
        accepted = due_ns.size - counts[UNAVAILABLE] - counts[LEFT]
        refused_ns = (log.ended_ns - log.sent_ns)[status == UNAVAILABLE]
        delays_ns = (log.sent_ns - due_ns)[log.sent_ns != NEVER]
        late_sends = int(np.count_nonzero(delays_ns > LATE_NS)) + due_ns.size - delays_ns.size
        return cls(
            sent=due_ns.size,
            offered_rps=due_ns.size / max(last_ns, 1) * NS_PER_SECOND,
            goodput_rps=in_objective / until_ns * NS_PER_SECOND,
            in_objective=in_objective,
            late=int(ok.sum()) - in_objective,
            rejected=_by_code(log, {UNAVAILABLE}),
            expired=counts[TIMED_OUT],
            left=counts[LEFT],
            lost=counts[LOST],
            open=counts[OPEN],
            others=_by_code(log, set(counts) - {OK, UNAVAILABLE, TIMED_OUT, LEFT, LOST, OPEN}),
            missed_ratio=missed / accepted if accepted else 0.0,
            p50_ms=percentile_ms(took_ns, 50),
            p99_ms=percentile_ms(took_ns, 99),
            mean_ms=float(np.mean(took_ns)) / NS_PER_MS if took_ns.size else None,
            rejected_p99_ms=percentile_ms(refused_ns, 99),
            late_sends=late_sends,
            send_delay_p99_ms=percentile_ms(delays_ns, 99) or 0.0,
            is_valid=late_sends <= LATE_SHARE * due_ns.size,
        )


def percentile_ms(values_ns: Instants, percent: float) -> float | None:
    """Return a percentile in milliseconds; ``None`` of no values."""
    return float(np.percentile(values_ns, percent)) / NS_PER_MS if values_ns.size else None


def _by_code(log: Log, statuses: set[int]) -> dict[str, int]:
    places = np.flatnonzero(np.isin(log.status, list(statuses))).tolist()
    return dict(
        Counter(f"{log.status[place]} {log.codes.get(place, '')}".strip() for place in places)
    )
