"""What the batcher wants done; whoever drives it obeys in the order of the list.

Plain slotted objects: these are made for every batch, and a frozen dataclass costs three times as
much. Nobody changes one after it was made.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import DispatchReason, RefusalCode

_NEVER: Final = Nanoseconds(0)
_FOREVER: Final = Nanoseconds(1 << 62)


@dataclass(slots=True, eq=False)
class Piece:
    """Consecutive rows of one request that ride in one batch; nearly always all of them."""

    request: Request
    first_row: int
    """Counted in the request, from 0."""
    rows: int


@dataclass(slots=True, eq=False)
class Batch:
    """One model call: the rows of its pieces, in this order."""

    pieces: list[Piece]
    """By deadline, the earliest first; all with the same shape key, each request at most once."""
    rows: int
    reason: DispatchReason
    started_at_ns: Nanoseconds = _NEVER
    family: "Family | None" = None
    """Set for a part of a batch that failed, which is tried again."""
    is_overdue: bool = False
    """Whether the model has been told that it runs far beyond its promise."""
    is_terminated: bool = False
    """Whether nobody wanted its outputs any more, and its call was asked to end."""
    limit_ns: Nanoseconds = _FOREVER
    """How long its call may take before it is given up."""
    hangs_at_ns: Nanoseconds = _FOREVER
    """When that is."""


@dataclass(slots=True, eq=False)
class Family:
    """The parts of one batch that failed, while the row that makes it fail is looked for."""

    reruns_left: int
    suspects: list[tuple[Piece, BackendError]]
    """Rows that failed alone; whose fault that was is known once all parts have ended."""
    parts: int = 0
    """Parts that wait or run."""
    has_succeeded: bool = False
    """Whether any part did: then the backend is sound, and the suspects are not."""


@dataclass(slots=True, eq=False)
class StartBatch:
    """Give the batch to an idle executor now."""

    batch: Batch


@dataclass(slots=True, eq=False)
class Answer:
    """The batch has ended: hand its outputs to those requests that have not ended otherwise.

    A request that is answered in full is in ``ANSWERED``; one in ``RUNNING`` has more rows in
    other batches, and these outputs are kept until its last piece is there.
    """

    batch: Batch


@dataclass(slots=True, eq=False)
class Fail:
    """These requests had rows in a batch that failed."""

    requests: list[Request]
    error: BackendError
    poison_row: int | None = None
    """The row, counted in its request, that fails alone while others succeed; there is one
    request then."""


@dataclass(slots=True, eq=False)
class Reject:
    """Refuse a request that has just arrived, or that nothing will run."""

    request: Request
    code: RefusalCode
    rows_ahead: int
    """Rows that waited when it came."""
    predicted_ns: Nanoseconds | None = None
    """From its arrival to its answer, had it been admitted; ``None`` if that is not known."""
    retry_after_ns: Nanoseconds | None = None
    """When it would fit, if nothing else came; ``None`` if that is not known."""
    probe: Request | None = None
    """Runs in its stead, with its inputs and for nobody, to see whether refusing was right."""


@dataclass(slots=True, eq=False)
class Expire:
    """The deadline of this request has passed."""

    request: Request


@dataclass(slots=True, eq=False)
class Terminate:
    """Nobody waits for this batch any more: end its call early, if the backend can.

    Its end is told as that of every batch, and then once: with outputs, or as failed.
    """

    batch: Batch


@dataclass(slots=True, eq=False)
class GiveUp:
    """The call of this batch hangs: leave it and its executor alone, and ask for another executor.

    Nothing is to be told of this batch any more. ``on_executor_change`` says when the other
    executor is there.
    """

    batch: Batch
    ran_ns: Nanoseconds


@dataclass(slots=True, eq=False)
class Forget:
    """This probe has ended: nobody needs its inputs any more."""

    probe: Request


@dataclass(slots=True, eq=False)
class WakeAt:
    """Call ``on_tick`` at this instant, and at none that was named before."""

    at_ns: Nanoseconds | None
    """The earliest instant at which something is due; ``None``: there is nothing to wake for."""


Ending: TypeAlias = Fail | Reject | Expire | Forget
Command: TypeAlias = StartBatch | Answer | Ending | Terminate | GiveUp | WakeAt
