"""What there is of each model here, for operators: who asked, what serves, what failed and why."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidegate.ids import ModelName, Version
from tidegate.units import Nanoseconds, ns_to_seconds
from tidegate_realtime.api.served import Offer
from tidegate_realtime.core.asked import Asked
from tidegate_realtime.core.hosting import Copy, State
from tidegate_realtime.core.lifecycle import Lifecycle

Json = dict[str, Any]

TRITON_STATES: Final[Mapping[State, str]] = {
    State.FETCHING: "LOADING",
    State.LOADING: "LOADING",
    State.WARMING: "LOADING",
    State.READY: "READY",
    State.LEAVING: "UNLOADING",
    State.FAILED: "UNAVAILABLE",
    State.UNLOADED: "UNAVAILABLE",
}
_DECIMALS: Final = 3


def list_models(
    lifecycle: Lifecycle, offer: Callable[[str], Offer], now_ns: Nanoseconds
) -> list[Json]:
    """Describe every model, in the order in which they were asked for."""
    names = [*lifecycle.asked, *(copy.name for copy in lifecycle.copies)]
    return [describe_model(lifecycle, name, offer(name), now_ns) for name in dict.fromkeys(names)]


def describe_model(
    lifecycle: Lifecycle, name: ModelName, offer: Offer, now_ns: Nanoseconds
) -> Json:
    """Describe one model; one that is leaving altogether has nobody who asks for it."""
    asked = lifecycle.asked.get(name, Asked(name=name))
    return {
        "name": name,
        "asked_at_start": [str(ref) for ref in asked.at_start],
        "asked_by_operator": [str(ref) for ref in asked.by_operator],
        "aliases": dict(offer.aliases),
        "aliases_wanted": dict(asked.targets),
        "aliases_missing": asked.missing,
        "aliases_problem": asked.problem,
        "default_version": offer.preferred,
        "versions": [
            _describe_copy(copy, asked, offer, now_ns)
            for copy in lifecycle.copies
            if copy.name == name
        ],
    }


def triton_index(lifecycle: Lifecycle, *, only_ready: bool) -> list[Json]:
    """List the versions as a Triton server does."""
    return [
        {
            "name": copy.name,
            "version": str(copy.version),
            "state": TRITON_STATES[copy.state],
            "reason": f"{copy.failure.code}: {copy.failure.message}" if copy.failure else "",
        }
        for copy in lifecycle.copies
        if not only_ready or copy.state is State.READY
    ]


def _describe_copy(copy: Copy, asked: Asked, offer: Offer, now_ns: Nanoseconds) -> Json:
    served = offer.versions.get(copy.version) if copy.state is State.READY else None
    return {
        "version": copy.version,
        "state": copy.state.value,
        "asked_by": [str(ref) for ref in asked.refs_to(Version(copy.version))],
        "digest": served.model.tag.digest if served else None,
        "size_bytes": copy.size_bytes,
        "requests": served.use.bound if served else None,
        "used_seconds_ago": _seconds(now_ns - served.use.last_at_ns) if served else None,
        "failure": _describe_failure(copy, now_ns),
    }


def _describe_failure(copy: Copy, now_ns: Nanoseconds) -> Json | None:
    if copy.failure is None:
        return None
    retry_at_ns = copy.retry_at_ns
    return {
        "code": copy.failure.code,
        "message": copy.failure.message,
        "attempts": copy.failure.attempts,
        "retry_in_seconds": None if retry_at_ns is None else _seconds(retry_at_ns - now_ns),
    }


def _seconds(duration_ns: int) -> float:
    return round(max(0.0, ns_to_seconds(Nanoseconds(duration_ns))), _DECIMALS)
