"""``tidegate explain --json``: what was observed, under the names that the rest of Tidegate uses.

Those of the metadata of a model (``/v2/models/{model}``) where it says the same, those of the
metrics where they do; durations are in milliseconds. The table is in ``docs/metrics.md``.
"""

from dataclasses import asdict
from typing import Any

from tidegate_realtime.api.caps import CapNumbers
from tidegate_realtime.api.explaining import Observed, explain


def explanation(observed: Observed) -> dict[str, Any]:
    """Write what was observed and found as JSON can say it."""
    return {
        "model": observed.model,
        "window_ms": 1_000 * observed.window_s,
        "slo_ms": observed.objective_ms,
        "percentile": observed.objective_percentile,
        "promised_percentile": observed.promised_percentile,
        "one_row_ms": observed.one_row_ms,
        **_cap(observed.cap),
        "cap_tokens": observed.tokens,
        **_requests(observed),
        **_batches(observed),
        **_executors(observed),
        "findings": [asdict(finding) for finding in explain(observed)],
    }


def _cap(cap: CapNumbers) -> dict[str, Any]:
    return {
        "cap_rows": cap.effective,
        "cap_limited_by": cap.limited_by,
        "cap_calm_rows": cap.calm,
        "cap_slo_rows": cap.slo,
        "cap_knee_rows": cap.knee,
        "cap_memory_rows": cap.memory,
        "need_rows": cap.need,
    }


def _requests(observed: Observed) -> dict[str, Any]:
    return {
        "answered": observed.answered,
        "expired": observed.expired,
        "rejected_by_reason": dict(observed.refused),
        "stood_by_in_vain": observed.held_in_vain,
        "mean_refusal_ms": observed.refusal_ms,
        "mean_in_flight_requests": observed.in_progress,
        "most_in_flight_requests": observed.most_in_progress,
        "arrival_rows_per_second": observed.arriving_per_second,
        "capacity_rows_per_second": observed.capacity_per_second,
    }


def _batches(observed: Observed) -> dict[str, Any]:
    return {
        "batches": observed.batches,
        "rows": observed.rows,
        "mean_batch_rows": observed.batch_rows,
        "batches_by_dispatch_reason": dict(observed.reasons),
        "mean_execution_ms": observed.call_ms,
        "conformal_factor": observed.slower_ratio,
        "terminated_calls": observed.terminated,
    }


def _executors(observed: Observed) -> dict[str, Any]:
    return {
        "executors": observed.executors_usable,
        "executors_missing": observed.executors_missing,
        "executors_given_up": observed.given_up,
        "executor_busy_ratio": observed.busy_ratio,
        "shares_executors_with": list(observed.sharing),
        "others_busy_ratio": observed.others_busy_ratio,
    }
