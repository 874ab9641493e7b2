"""Policies by the names that a person types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegate.errors import SettingError
from tidegate.profiles import LatencyProfile
from tidegate.units import NS_PER_SECOND, Nanoseconds, ms_to_ns
from tidegate_loadtest.simulate.policies.aimd import Aimd
from tidegate_loadtest.simulate.policies.mean_regression import MeanRegression
from tidegate_loadtest.simulate.policies.nexus import EarlyDrop, LazyDrop
from tidegate_loadtest.simulate.policies.plain import Greedy, OneByOne, SizeOrTime
from tidegate_loadtest.simulate.policies.port import Policy
from tidegate_loadtest.simulate.policies.slo import build_slo

OURS: Final = "slo"
FIXED: Final = "fixed"
ALL: Final = (
    OURS,
    "none",
    "fixed:32:5",  # common in the examples of servers' manuals: 32 rows or 5 ms
    "greedy",
    "aimd",
    "mean-regression",
    "early-drop",
    "lazy-drop",
)
"""What ``all`` means, ours first."""
LONGEST_NS: Final = Nanoseconds(60 * NS_PER_SECOND)
"""The gateway's longest deadline, unless it is set: what a best-effort model goes by."""
FORMS: Final = ", ".join(name if FIXED not in name else "fixed:ROWS:MS" for name in ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a policy may know."""

    profile: LatencyProfile
    executors: int
    objective_ns: Nanoseconds
    best_effort: bool = False
    """Whether ours shall answer everybody, however late, as it does for a best-effort model."""

    @property
    def ours_ns(self) -> Nanoseconds:
        """What our cap and deadlines follow from."""
        return LONGEST_NS if self.best_effort else self.objective_ns


def build_policy(text: str, situation: Situation) -> Policy:
    """Build a policy with an empty queue.

    Raises:
        SettingError: There is no policy of that name.
    """
    if text.startswith(f"{FIXED}:"):
        return _size_or_time(text, situation)
    build = _BY_NAME.get(text)
    if build is None:
        raise SettingError(f"policy {text!r} is none of: {FORMS}, all.")
    return build(situation)


def _size_or_time(text: str, situation: Situation) -> Policy:
    try:
        _, rows, wait_ms = text.split(":")
        full, wait_ns = int(rows), ms_to_ns(float(wait_ms))
    except (ValueError, OverflowError):
        raise SettingError(f"policy {text!r}: expected fixed:ROWS:MS, as in fixed:32:5.") from None
    if full < 1 or wait_ns < 0:
        raise SettingError(f"policy {text!r}: ROWS must be 1 or more and MS 0 or more.")
    return SizeOrTime(
        executors=situation.executors,
        largest_rows=situation.profile.largest_size,
        rows=full,
        wait_ns=wait_ns,
    )


def _of_queue(kind: type[OneByOne | Greedy]) -> Callable[[Situation], Policy]:
    return lambda s: kind(executors=s.executors, largest_rows=s.profile.largest_size)


def _of_objective(kind: type[Aimd | MeanRegression]) -> Callable[[Situation], Policy]:
    return lambda s: kind(
        executors=s.executors, largest_rows=s.profile.largest_size, objective_ns=s.objective_ns
    )


def _of_profile(kind: type[LazyDrop]) -> Callable[[Situation], Policy]:
    return lambda s: kind(s.profile, executors=s.executors, objective_ns=s.objective_ns)


_BY_NAME: Final[dict[str, Callable[[Situation], Policy]]] = {
    OURS: lambda s: build_slo(s.profile, executors=s.executors, objective_ns=s.ours_ns),
    "none": _of_queue(OneByOne),
    "greedy": _of_queue(Greedy),
    "aimd": _of_objective(Aimd),
    "mean-regression": _of_objective(MeanRegression),
    "early-drop": _of_profile(EarlyDrop),
    "lazy-drop": _of_profile(LazyDrop),
}
