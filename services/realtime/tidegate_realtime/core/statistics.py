"""What the batcher and its queue answer when they are asked how they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from tidegate.units import Nanoseconds
from tidegate_realtime.core.forecasts import ForecastStatistics
from tidegate_realtime.core.waits import WaitStatistics

DispatchReason = Literal["full", "free", "fits", "need_met", "waited", "bisect", "drain"]
"""Why a batch started with the rows that it has: the cap left no room for more; an executor was
free and took what there was; more would have made its first row late; there was the company that
the load needs; the wait for company was over; it is a part of a batch that failed; or no more will
come."""
RefusalCode = Literal["queue_full", "draining", "deadline_unreachable", "backend_unavailable"]
REFUSAL_CODES: Final[tuple[RefusalCode, ...]] = get_args(RefusalCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """What waits at this moment."""

    requests: int
    rows: int
    """Rows that no batch has taken yet; part of a request that runs in pieces counts too."""
    rows_by_class: tuple[int, ...]
    """Of classes 1, 2 and 3, and late ones that may not be shed."""
    waiting_since_by_class: tuple[Nanoseconds | None, ...]
    """When the request of each class that has waited longest arrived."""
    waiting_since_ns: Nanoseconds | None
    """When the request that has waited longest arrived."""
    earliest_deadline_at_ns: Nanoseconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatcherStatistics:
    """Counts since the start, and what waits and runs now.

    At every moment ``arrived`` is the sum of the eight counts that follow it and ``probes``: each
    request is in exactly one place, and ends in exactly one way.
    """

    arrived: int
    arrived_rows: int
    """Of those; of what was refused unread, as many as is usual."""
    standby: int
    """Requests that are promised no place and not refused yet."""
    waiting: int
    running: int
    """Requests of which at least one row was taken by a batch, and which have not ended."""
    answered: int
    rejected: int
    expired: int
    cancelled: int
    failed: int
    probes: int
    """Requests that were refused and yet run, for nobody; neither accepted nor rejected."""
    probes_ended: int
    """Those of them whose answer came, and that had all rows of the refused request."""
    probes_in_time: int
    """Those of them that would have met their deadline: each was refused in error."""
    late: int
    """Requests that may not be shed, and whose deadline passed before they were answered."""
    poison_rows: int
    """Rows that failed alone."""
    rejected_by_code: Mapping[RefusalCode, int]
    refused_unread: int
    """Of these, requests that nobody had to read for it."""
    held: int
    """Requests that have stood by, and have ridden, been refused or left since, or still do."""
    held_in_vain: int
    """Of these, requests that were refused in the end."""
    queue: QueueStatistics
    batches_running: int
    """Executors in use; one may still be busy for requests that all have ended."""
    batches_terminated: int
    """Calls that were asked to end early, because nobody waited for them any more."""
    executors_usable: int
    """Executors that are there; fewer than the model has while one is being replaced."""
    executors_given_up: int
    """Executors whose call hung, and that were replaced, or are being."""
    forecasts: ForecastStatistics
    """How right the promises were that answered requests had been given."""
    batches_by_reason: Mapping[DispatchReason, int]
    batches_by_rows: Mapping[int, int]
    """How many batches of each size were started: rows → batches."""
    oldest_waits: WaitStatistics
    """How long who had waited longest in each batch had."""

    @property
    def in_progress(self) -> int:
        """Requests that have not ended."""
        return self.standby + self.waiting + self.running

    @property
    def unaccounted(self) -> int:
        """Requests that were lost (above 0) or ended twice (below 0): anything but 0 is a bug."""
        return self.arrived - (
            self.standby
            + self.waiting
            + self.running
            + self.answered
            + self.rejected
            + self.expired
            + self.cancelled
            + self.failed
            + self.probes
        )
