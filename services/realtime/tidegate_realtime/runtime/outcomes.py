"""How a request can end: exactly one of these five values for each."""

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.units import Nanoseconds
from tidegate_realtime.core.statistics import RefusalCode


# Not frozen: one is made for every answer, and a frozen one costs three times as much.
@dataclass(slots=True, eq=False)
class Answered:
    """The model's outputs for the rows of this request, in their order."""

    outputs: Tensors
    """One array ``(rows, …)`` per output. Views into the outputs of the whole batch, which stay
    in memory as long as one of its views does: encode and let go."""
    queued_ns: Nanoseconds
    """From arrival to the start of the batch with its first rows."""
    executed_ns: Nanoseconds
    """From there to the end of the batch with its last rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Refused on arrival; it never waited."""

    code: RefusalCode
    message: str
    retry_after_ms: int
    """When another try is worthwhile, at the earliest. Without jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The deadline passed; rows that were running are computed and dropped."""

    queued_ns: Nanoseconds
    executed_ns: Nanoseconds
    """0 if it never ran."""
    limit_ns: Nanoseconds
    """From arrival to the deadline."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller left; nobody reads this answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A batch with rows of this request failed."""

    error: BackendError


Outcome: TypeAlias = Answered | Rejected | Expired | Cancelled | Failed
