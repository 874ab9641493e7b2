"""The model versions of this process, and which of them a request means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, assert_never

from tidegate.ids import DEFAULT_ALIAS, Alias, ModelName, Version
from tidegate.inference.model import Model
from tidegate.oip.response import ResponseTag
from tidegate.settings import LatencyObjective
from tidegate.units import Nanoseconds
from tidegate_realtime.api.errors import (
    DrainingError,
    ModelNotServedError,
    NotReadyError,
    VersionNotServedError,
)
from tidegate_realtime.api.poison import PoisonMemory
from tidegate_realtime.api.spending import CallTimes
from tidegate_realtime.api.unread import UnreadColumns
from tidegate_realtime.api.wishes import Deadline, DeadlineTooShortError, deadline_at_ns
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.promise import MAX_DEADLINE_NS

SERVED_BY: Final = "model"
"""The rung of the degradation ladder that answered; the only one so far."""
VARIANT: Final = "default"
ONNXRUNTIME: Final = "onnxruntime"
_DOUBT: Final = 10
"""No model is measured so wrongly, and microseconds for milliseconds are wrong by a thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVersion:
    """One version, loaded and warm, and what is the same in all of its replies."""

    model: Model
    driver: BatchDriver
    objective: LatencyObjective
    objective_origin: str
    """Where the objective was set: a file, a flag, or ``default``."""
    best_effort: bool = False
    """Whether everything is answered, however late."""
    max_deadline_ns: Nanoseconds = MAX_DEADLINE_NS
    """What a longer wish of a caller is cut to."""
    backend: str = ONNXRUNTIME
    """The kind of it."""
    poison: PoisonMemory = field(default_factory=PoisonMemory)
    unread: UnreadColumns = field(default_factory=UnreadColumns)
    calls: CallTimes = field(default_factory=CallTimes)
    """Of its backend."""
    response_tag: ResponseTag = field(init=False)
    headers: tuple[tuple[str, str], ...] = field(init=False)
    """The tag in the headers of every prediction."""

    def __post_init__(self) -> None:
        """Write the tag once; it is part of every reply."""
        tag = self.model.tag
        object.__setattr__(
            self,
            "response_tag",
            ResponseTag(
                model_name=tag.name,
                model_version=str(tag.version),
                parameters={
                    "tidegate_digest": tag.digest,
                    "tidegate_variant": self.variant,
                    "tidegate_served_by": SERVED_BY,
                },
            ),
        )
        headers = {
            "x-tidegate-model": tag.name,
            "x-tidegate-version": str(tag.version),
            "x-tidegate-digest": tag.digest,
            "x-tidegate-served-by": SERVED_BY,
        }
        object.__setattr__(self, "headers", tuple(headers.items()))

    @property
    def variant(self) -> str:
        """Say which files of the version answer; an emulated backend runs none of them."""
        return VARIANT if self.backend == ONNXRUNTIME else self.backend

    def deadline_at_ns(
        self, asked: Deadline | None, *, began_at_ns: int, arrived_at_ns: int
    ) -> Nanoseconds:
        """Return when a request is too late that may have asked for a deadline of its own."""
        return deadline_at_ns(
            asked,
            content_with_ns=self.max_deadline_ns if self.best_effort else self.objective.slo_ns,
            longest_ns=self.max_deadline_ns,
            began_at_ns=began_at_ns,
            arrived_at_ns=arrived_at_ns,
        )

    def check_possible(self, asked: Deadline, *, certainly: bool = False) -> None:
        """Refuse a deadline that no load, however low, would allow.

        To be asked once the scheduler has refused: it learns from some of what it refuses, and
        would not learn that a model has become quicker if it saw none of these requests.

        Args:
            asked: What the caller wishes.
            certainly: Refuse only what is wrong by a factor of ten, as a deadline in another unit
                is. That can be asked before, and keeps such callers from occupying the model.

        Raises:
            DeadlineTooShortError: One row takes longer, on an idle executor.
        """
        needed_ns = self.one_row_ns
        doubt = _DOUBT if certainly else 1
        if min(asked.asked_ns, self.max_deadline_ns) * doubt < needed_ns:
            raise DeadlineTooShortError.of(asked, model=str(self.model.tag), needed_ns=needed_ns)

    @property
    def one_row_ns(self) -> int:
        """What one row takes on an idle executor, at the objective's percentile; 0 if unknown."""
        model, pace = self.driver.latency_model, self.driver.pace
        known = model is not None and model.largest_size
        return model.tail_ns(1) + pace.overhead_ns if model is not None and known else 0


class State(Enum):
    """Of the process; it only moves on."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Readiness:
    """Whether this process takes work; whoever starts and stops it sets the state."""

    def __init__(self) -> None:
        self.state = State.STARTING

    @property
    def is_ready(self) -> bool:
        """Every model is loaded and warm, and the end has not begun."""
        return self.state is State.READY

    def check(self) -> None:
        """Let work pass.

        Raises:
            NotReadyError: The start is not over.
            DrainingError: The end has begun.
        """
        match self.state:
            case State.READY:
                pass
            case State.STARTING:
                raise NotReadyError("This server is starting and takes no work yet.")
            case State.DRAINING:
                raise DrainingError("This server is shutting down and takes no new work.")
            case _:
                assert_never(self.state)


class Catalogue:
    """What is served here, and whether it takes work. A request never loads anything."""

    def __init__(
        self,
        versions: Sequence[ServedVersion],
        *,
        aliases: Mapping[ModelName, Mapping[Alias, Version]],
    ) -> None:
        """Build it.

        Args:
            versions: Each version once, those of one model in the order of preference.
            aliases: Where the aliases of each model pointed when it was loaded.
        """
        self.versions = tuple(versions)
        self.readiness = Readiness()
        self._aliases = aliases
        self._by_name: dict[str, dict[int, ServedVersion]] = {}
        for served in versions:
            tag = served.model.tag
            self._by_name.setdefault(tag.name, {})[tag.version] = served

    @property
    def names(self) -> list[str]:
        """The models, in the order in which they were asked for."""
        return list(self._by_name)

    def numbers(self, name: str) -> list[int]:
        """Return the versions of a model that are served, lowest first."""
        return sorted(self._by_name.get(name, ()))

    def find(self, name: str, at: str | None) -> ServedVersion:
        """Return the version that a request means.

        Args:
            name: The model.
            at: A number or an alias; ``None`` for ``stable``, or what was asked for first at
                start-up if that is not served.

        Raises:
            ModelNotServedError: There is no version of this model here.
            VersionNotServedError: There is, but not this one.
        """
        versions = self._by_name.get(name)
        if versions is None:
            names = ", ".join(self._by_name) or "none"
            raise ModelNotServedError(f"The model {name!r} is not served here. Models: {names}.")
        if at is None:
            stable = self._number(name, DEFAULT_ALIAS)
            return versions.get(stable) or next(iter(versions.values()))
        served = versions.get(self._number(name, at))
        if served is None:
            raise VersionNotServedError.of(name, at, served=self.numbers(name))
        return served

    def _number(self, name: str, at: str) -> int:
        if at[0].isdigit():
            return int(at)
        return self._aliases.get(ModelName(name), {}).get(Alias(at), Version(0))
