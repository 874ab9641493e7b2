"""The model versions of this process, and which of them a request means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, assert_never

from tidegate.errors import TidegateError
from tidegate.ids import DEFAULT_ALIAS, Alias, ModelName, Version
from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate.oip.response import ResponseTag
from tidegate.settings import LatencyObjective
from tidegate.units import Nanoseconds
from tidegate_realtime.api.asked_outputs import AskableOutputs
from tidegate_realtime.api.errors import (
    DrainingError,
    ModelNotServedError,
    NotReadyError,
    VersionNotServedError,
)
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.poison import PoisonMemory
from tidegate_realtime.api.unread import UnreadColumns
from tidegate_realtime.api.use import Use
from tidegate_realtime.api.wishes import Deadline, DeadlineTooShortError, deadline_at_ns
from tidegate_realtime.runtime.buckets import Driver
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
    driver: Driver
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
    use: Use = field(default_factory=Use)
    """Which requests are bound to it."""
    measured: MeasuredBackend | None = None
    """What runs it, with its counts; ``None`` where nobody counts."""
    slo_ns: Nanoseconds = field(init=False)
    """Of the objective; converted once, for every request asks for it."""
    patience_ns: Nanoseconds = field(init=False)
    """How long callers wait who do not say: as promised, or for as long as anybody may."""
    is_slow_to_read: bool = field(init=False)
    """Whether other threads decode its questions; see ``Model``."""
    label: tuple[str, str] = field(init=False)
    """Model and version, as metrics are labelled."""
    response_tag: ResponseTag = field(init=False)
    outputs: AskableOutputs = field(init=False)
    headers: tuple[tuple[str, str], ...] = field(init=False)
    """The tag in the headers of every prediction."""

    def __post_init__(self) -> None:
        """Write the tag once; it is part of every reply."""
        tag = self.model.tag
        object.__setattr__(self, "slo_ns", self.objective.slo_ns)
        patience_ns = self.max_deadline_ns if self.best_effort else self.slo_ns
        object.__setattr__(self, "patience_ns", patience_ns)
        object.__setattr__(self, "outputs", AskableOutputs(self.model))
        object.__setattr__(self, "is_slow_to_read", self.model.is_slow_to_read)
        object.__setattr__(self, "label", (str(tag.name), str(tag.version)))
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
        if asked is None:  # as nearly everybody: half of the time
            return Nanoseconds(arrived_at_ns + self.patience_ns)
        return deadline_at_ns(
            asked,
            content_with_ns=self.patience_ns,
            longest_ns=self.max_deadline_ns,
            began_at_ns=began_at_ns,
            arrived_at_ns=arrived_at_ns,
        )

    def latest_ns(self, named: Deadline | None, began_at_ns: int) -> Nanoseconds:
        """Return the latest deadline of a request whose body may name a sooner one, or any."""
        longest_ns = self.max_deadline_ns
        asked_ns = longest_ns if named is None else min(named.asked_ns, longest_ns)
        return Nanoseconds(began_at_ns + asked_ns)

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
        needed_ns = min(map(one_row_ns, self.driver.parts))
        doubt = _DOUBT if certainly else 1
        if min(asked.asked_ns, self.max_deadline_ns) * doubt < needed_ns:
            raise DeadlineTooShortError.of(asked, model=str(self.model.tag), needed_ns=needed_ns)

    def check_caller(self, asked: Deadline | None, inputs: Tensors) -> None:
        """The same once the rows are known, of which some take longer than others.

        Without a wish only texts are refused so that are too long for the objective even on
        average: for others another try may help.

        Args:
            asked: What the caller wishes, if anything.
            inputs: That the scheduler has refused to run in time.

        Raises:
            DeadlineTooShortError: One row of that length takes longer, on an idle executor.
        """
        part = self.driver.part_for(inputs)
        if asked is None and len(self.driver.parts) == 1:
            return
        needed_ns = one_row_ns(part, on_average=asked is None)
        wish = asked or Deadline(
            self.objective.slo_ns,
            f"The objective is {self.objective.slo_ms:g} ms, "
            "and no Tidegate-Deadline-Ms allows more",
        )
        if min(wish.asked_ns, self.max_deadline_ns) < needed_ns:
            raise DeadlineTooShortError.of(wish, model=part.name, needed_ns=needed_ns)

    @property
    def promised_percentile(self) -> float:
        """At which answers are promised, to those who are promised least; see ``relenting``."""
        models = [part.latency_model for part in self.driver.parts]
        promised = [model.percentile for model in models if model is not None]
        return min(promised, default=self.objective.percentile)

    @property
    def used_at_ns(self) -> Nanoseconds:
        """When a request last found it, or when it was loaded."""
        return self.use.last_at_ns


def one_row_ns(driver: BatchDriver, *, on_average: bool = False) -> int:
    """Return what one row takes on an idle executor, at the percentile; 0 if that is unknown."""
    model = driver.latency_model
    if model is None or not model.largest_size:
        return 0
    call_ns = model.mean_ns(1) if on_average else model.tail_ns(1)
    return call_ns + driver.pace.overhead_ns


class State(Enum):
    """Of the process; it only moves on."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


_READY: Final = State.READY
"""A local name, because looking a member up in its class takes four times as long."""


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
        if self.state is _READY:
            return
        match self.state:
            case State.STARTING:
                raise NotReadyError("This server is starting and takes no work yet.")
            case State.DRAINING:
                raise DrainingError("This server is shutting down and takes no new work.")
            case _:
                assert_never(self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What callers find of one model; it never changes, another takes its place."""

    versions: Mapping[int, ServedVersion] = field(default_factory=dict)
    """Loaded and warm, lowest first."""
    aliases: Mapping[str, int] = field(default_factory=dict)
    preferred: int | None = None
    """For callers who name no version."""
    coming: frozenset[int] = frozenset()
    """Versions that are being loaded."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """Versions that could not be loaded, with the code of the reason."""

    def number(self, at: str | None) -> int | None:
        """Return the version that is meant by a number or an alias, whether or not it is here."""
        if at is None:
            return self.preferred
        return int(at) if at[0].isdigit() else self.aliases.get(at)


class Catalogue:
    """What is served here, and whether it takes work. A request never loads anything."""

    def __init__(
        self,
        versions: Sequence[ServedVersion] = (),
        *,
        aliases: Mapping[ModelName, Mapping[Alias, Version]] | None = None,
    ) -> None:
        """Begin with these, or with nothing.

        Args:
            versions: Each version once; the first of a model is preferred if it has no ``stable``.
            aliases: Where the aliases of each model point.
        """
        self.readiness = Readiness()
        self._offers: dict[str, Offer] = {}
        found: dict[ModelName, dict[int, ServedVersion]] = {}
        for served in versions:
            found.setdefault(served.model.tag.name, {})[served.model.tag.version] = served
        for name, numbered in found.items():
            named = {str(alias): int(at) for alias, at in (aliases or {}).get(name, {}).items()}
            stable = named.get(DEFAULT_ALIAS)
            preferred = stable if stable in numbered else next(iter(numbered))
            self.show(name, Offer(versions=numbered, aliases=named, preferred=preferred))

    def show(self, name: str, offer: Offer) -> None:
        """Let callers find this of a model from now on; who has found a version keeps it."""
        offers = {**self._offers, name: offer}
        if not (offer.versions or offer.coming or offer.failed):
            del offers[name]
        self._offers = offers

    @property
    def versions(self) -> tuple[ServedVersion, ...]:
        """Every version that answers."""
        return tuple(each for offer in self._offers.values() for each in offer.versions.values())

    @property
    def names(self) -> list[str]:
        """The models that answer, in the order in which they were asked for."""
        return [name for name, offer in self._offers.items() if offer.versions]

    @property
    def offers(self) -> Mapping[str, Offer]:
        """All there is, by model, also of those that do not answer yet; to be read only."""
        return self._offers

    def offer(self, name: str) -> Offer:
        """Return all there is of a model; an empty one if it is not known here."""
        return self._offers.get(name, _NO_OFFER)

    def serves(self, name: str) -> bool:
        """Say whether any version of a model answers."""
        return bool(self.offer(name).versions)

    def numbers(self, name: str) -> list[int]:
        """Return the versions of a model that are served, lowest first."""
        return sorted(self.offer(name).versions)

    def find(self, name: str, at: str | None) -> ServedVersion:
        """Return the version that a request means.

        Args:
            name: The model.
            at: A number or an alias; ``None`` for ``stable``, or what was asked for first at
                start-up if that is not served.

        Raises:
            ModelNotServedError: There is no version of this model here.
            VersionNotServedError: There is, but not this one.
            NotReadyError: It is being loaded.
        """
        offer = self.offer(name)
        number = offer.number(at)
        served = None if number is None else offer.versions.get(number)
        if served is None:
            raise self._not_found(name, at, number)
        return served

    def _not_found(self, name: str, at: str | None, number: int | None) -> TidegateError:
        offer = self.offer(name)
        if offer.coming and (at is None or number in offer.coming):
            what = name if at is None else f"{name}@{number}"
            return NotReadyError(f"{what} is being loaded here and does not answer yet.")
        if at is None or not offer.versions:
            names = ", ".join(self.names) or "none"
            return ModelNotServedError(f"The model {name!r} is not served here. Models: {names}.")
        return VersionNotServedError.of(name, at, served=self.numbers(name))


_NO_OFFER: Final = Offer()
