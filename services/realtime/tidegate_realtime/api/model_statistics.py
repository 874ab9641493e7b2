"""Statistics in the shape that Triton's clients read, from the counts that ``/metrics`` reads.

https://github.com/triton-inference-server/server, "Statistics Extension". Times are sums since the
start, in nanoseconds. ``compute_input`` is decoding, ``compute_infer`` the model call and
``compute_output`` encoding; there is no cache.
"""

from typing import Any, Final

from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.api.spending import Spent, Stages

_NOTHING: Final = Spent(0, 0)


def model_statistics(served: ServedVersion, stages: Stages) -> dict[str, Any]:
    """Return what is known of one version."""
    tag = served.response_tag
    calls = served.measured.calls.by_rows() if served.measured is not None else {}
    return {
        "name": tag.model_name,
        "version": tag.model_version,
        "inference_count": sum(rows * spent.times for rows, spent in calls.items()),
        "execution_count": sum(spent.times for spent in calls.values()),
        "inference_stats": _of_requests(stages),
        "batch_stats": [{"batch_size": rows, **_of_calls(spent)} for rows, spent in calls.items()],
    }


def _of_requests(stages: Stages) -> dict[str, Any]:
    ns = stages.by_name()
    of_stage = {name: Spent(stages.answered, spent_ns) for name, spent_ns in ns.items()}
    named = {
        "success": Spent(stages.answered, sum(ns.values())),
        "fail": stages.refused,
        "queue": of_stage["queue"],
        "compute_input": of_stage["decode"],
        "compute_infer": of_stage["execute"],
        "compute_output": of_stage["encode"],
        "cache_hit": _NOTHING,
        "cache_miss": _NOTHING,
    }
    return {name: spent.as_json() for name, spent in named.items()}


def _of_calls(spent: Spent) -> dict[str, Any]:
    """Only the call itself can be told of a batch: its requests came and went one by one."""
    unknown = Spent(spent.times, 0).as_json()
    return {
        "compute_input": unknown,
        "compute_infer": spent.as_json(),
        "compute_output": unknown,
    }
