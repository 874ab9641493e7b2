"""What the batcher wants done; whoever drives it obeys in the order of the list.

Plain slotted objects: these are made for every batch, and a frozen dataclass costs three times as
much. Nobody changes one after it was made.
"""

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import DispatchReason, RefusalCode


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


@dataclass(slots=True, eq=False)
class Reject:
    """Refuse a request that has just arrived."""

    request: Request
    code: RefusalCode
    rows_ahead: int
    """Rows that waited when it came."""


@dataclass(slots=True, eq=False)
class Expire:
    """The deadline of this request has passed."""

    request: Request


@dataclass(slots=True, eq=False)
class WakeAt:
    """Call ``on_tick`` at this instant, and at none that was named before."""

    at_ns: Nanoseconds | None
    """The earliest deadline; ``None``: nothing waits or runs, so there is nothing to wake for."""


Command: TypeAlias = StartBatch | Answer | Fail | Reject | Expire | WakeAt
