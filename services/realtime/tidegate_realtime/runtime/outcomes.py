"""How a request can end: exactly one of these five values for each."""

import math
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, assert_never

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.units import Nanoseconds, ns_to_ms
from tidegate_realtime.core.commands import Reject
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import RefusalCode

RETRY_AFTER_MS: Final = 1_000
"""The shortest time that a Retry-After header can say; nothing better is known here."""


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
    """Why; when to come back is added to it with the jitter, so that one number is told."""
    retry_after_ms: int
    """When another try is worthwhile, at the earliest. Without jitter."""
    predicted_ms: float | None = None
    """From its arrival to its answer, had it been admitted; ``None`` if that is not known, as are
    the two that follow."""
    slo_ms: float | None = None
    """What it allows."""
    rows_ahead: int | None = None
    """Rows that waited when it came."""

    @classmethod
    def of(cls, reject: Reject, limits: BatchLimits, *, model: str) -> Self:
        """Say in one sentence why, with the figures, and what to do about it."""
        if reject.code == "deadline_unreachable":
            return cls._unreachable(reject, model)
        rows, room = reject.request.rows, limits.queue_limit_rows
        match reject.code:
            case "draining":
                message = "This server is shutting down; send the request to another one."
            case "queue_full" if rows > room:
                message = (
                    f"The request has {rows} rows, and at most {room} may wait here; split it, "
                    "or submit an offline job."
                )
            case "queue_full" if reject.rows_ahead + rows <= room:
                message = (
                    f"{limits.queue_limit_bytes} bytes of inputs may wait, and there is no room "
                    "for this request; try again later."
                )
            case "backend_unavailable":
                message = (
                    f"Every call of {model} has run much longer than it ever did, and may hang; "
                    "try again later, or send the request to another server."
                )
            case "queue_full":
                message = (
                    f"{reject.rows_ahead} rows are waiting, of at most {room}, which leaves no "
                    f"room for {rows} more; try again later."
                )
            case _:
                assert_never(reject.code)
        return cls(code=reject.code, message=message, retry_after_ms=RETRY_AFTER_MS)

    @classmethod
    def _unreachable(cls, reject: Reject, model: str) -> Self:
        request = reject.request
        predicted_ms = ns_to_ms(reject.predicted_ns or 0)
        slo_ms = ns_to_ms(request.deadline_at_ns - request.arrived_at_ns)
        retry_after_ms = math.ceil(ns_to_ms(reject.retry_after_ns or 0))
        needed = f"{model} needs about {predicted_ms:.1f} ms ({reject.rows_ahead} rows are ahead)"
        if round(predicted_ms, 1) <= round(slo_ms, 1):
            spare_ms = slo_ms + retry_after_ms - predicted_ms
            needed += f" and {spare_ms:.1f} ms to spare, for surprises and for who waits already"
        return cls(
            code=reject.code,
            message=f"{needed}, but the request allows {slo_ms:.1f} ms.",
            retry_after_ms=retry_after_ms,
            predicted_ms=predicted_ms,
            slo_ms=slo_ms,
            rows_ahead=reject.rows_ahead,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The deadline passed; rows that were running are computed and dropped."""

    queued_ns: Nanoseconds
    executed_ns: Nanoseconds
    """0 if it never ran."""
    limit_ns: Nanoseconds
    """From arrival to the deadline."""
    is_read: bool = True
    """Whether it was made tensors of; if not, all of its time went there."""

    @classmethod
    def of(cls, request: Request, now_ns: Nanoseconds) -> Self:
        """Tell where the time of a request went that ends now."""
        queued_ns, executed_ns = time_spent(request, now_ns)
        limit_ns = Nanoseconds(request.deadline_at_ns - request.arrived_at_ns)
        return cls(queued_ns=queued_ns, executed_ns=executed_ns, limit_ns=limit_ns)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller left; nobody reads this answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A batch with rows of this request failed."""

    error: BackendError
    poison_row: int | None = None
    """The row, counted in the request from 0, that fails alone while others succeed: the caller's
    fault. ``None``: the model's, or nobody can tell."""


Outcome: TypeAlias = Answered | Rejected | Expired | Cancelled | Failed


def time_spent(request: Request, now_ns: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    """Return how long a request that ends now was queued, and how long it has been executed.

    The execution begins with the batch that took its first rows; 0 if none did.
    """
    started_at_ns = now_ns if request.started_at_ns is None else request.started_at_ns
    return (
        Nanoseconds(started_at_ns - request.arrived_at_ns),
        Nanoseconds(now_ns - started_at_ns),
    )
