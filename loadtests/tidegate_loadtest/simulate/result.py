"""What one run comes to."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.simulate.recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The figures of one policy on one list of arrivals; the names are those of the JSON."""

    policy: str
    offered_rps: float
    """Arrivals per second until the last of them."""
    goodput_rps: float
    """Answers in time, per second until the last arrival or the last of these answers."""
    answered: int
    """In time or late."""
    rejected: int
    expired: int
    """Accepted, and given up at or before the deadline."""
    missed_ratio: float
    """Expired or answered late, of what was accepted; 0 if nothing was."""
    p50_ms: float | None
    """Of the answers, from arrival on, as are the next two; ``None`` without any. What was
    refused or given up is not in it: read it with ``missed_ratio`` and ``rejected``."""
    p99_ms: float | None
    mean_ms: float | None
    mean_batch_rows: float | None
    utilisation: float
    """Busy time of all executors, of the time from the start to the last end."""
    simulated_requests_per_s: float
    """How fast the simulator was; all else is the same in every run of the same seed."""
    arrived: int
    late: int
    """Answered after the deadline."""
    cancelled: int
    failed: int
    probes: int
    """Refused requests that ran all the same, to learn whether the refusal was right."""
    probes_in_time: int
    """Those that would have made it."""
    in_objective_ratio: float
    """Answers in time, of everything that arrived."""
    idle_while_rows_wait: float
    """Time that executors stood idle although rows waited, of all their time."""

    @classmethod
    def of(
        cls, recording: Recording, *, policy: str, executors: int, simulated_in_s: float
    ) -> Self:
        """Add a recording up.

        Args:
            recording: Of a run that has ended.
            policy: Its name.
            executors: That it had.
            simulated_in_s: How long the simulation took, on a real clock.
        """
        ended_ns = np.asarray(recording.answered_ended_ns)
        took_ms = (ended_ns - np.asarray(recording.answered_at_ns)) / NS_PER_MS
        in_time = ended_ns <= np.asarray(recording.answered_deadline_ns)
        on_time = int(np.count_nonzero(in_time))
        starts_ns, ran_ns = (np.asarray(recording.batch_at_ns), np.asarray(recording.batch_took_ns))
        last_arrival_ns = recording.last_arrival_ns
        until_ns = max(last_arrival_ns, int(np.max(ended_ns[in_time], initial=1)))
        all_ns = max(last_arrival_ns, int(np.max(starts_ns + ran_ns, initial=1))) * executors
        accepted = recording.arrived - len(recording.rejected_at_ns)
        late = took_ms.size - on_time
        expired = len(recording.expired_at_ns)
        percentiles = np.percentile(took_ms, (50, 99)).tolist() if took_ms.size else (None, None)
        p50_ms, p99_ms = percentiles
        return cls(
            policy=policy,
            offered_rps=recording.arrived / max(last_arrival_ns, 1) * NS_PER_SECOND,
            goodput_rps=on_time / until_ns * NS_PER_SECOND,
            answered=took_ms.size,
            rejected=len(recording.rejected_at_ns),
            expired=expired,
            missed_ratio=(expired + late) / accepted if accepted else 0.0,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            mean_ms=float(np.mean(took_ms)) if took_ms.size else None,
            mean_batch_rows=float(np.mean(recording.batch_rows)) if ran_ns.size else None,
            utilisation=float(np.sum(ran_ns)) / all_ns,
            simulated_requests_per_s=recording.arrived / simulated_in_s,
            arrived=recording.arrived,
            late=late,
            cancelled=recording.cancelled,
            failed=len(recording.failed_at_ns),
            probes=recording.probes,
            probes_in_time=recording.probes_in_time,
            in_objective_ratio=on_time / recording.arrived if recording.arrived else 0.0,
            idle_while_rows_wait=recording.idle_while_rows_wait_ns / all_ns,
        )
