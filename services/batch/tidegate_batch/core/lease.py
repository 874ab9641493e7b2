"""The driver's lease: who drives a job, and when somebody else may.

A driver renews by writing ``state.json`` again, which makes its revision grow. An observer never
compares clocks with the driver: it notes the revision and its *own* monotonic time, and calls the
lease expired when the revision has not changed for the whole lease. An epoch that grows with each
take-over fences the driver of before. All this only keeps two drivers from wasting money; that
each row is written once never depends on it.
"""

from dataclasses import dataclass
from typing import Final

from tidegate.units import NS_PER_SECOND, Nanoseconds

LEASE_NS: Final = Nanoseconds(15 * NS_PER_SECOND)
"""Without renewal for this long a driver counts as dead."""
RENEW_NS: Final = Nanoseconds(5 * NS_PER_SECOND)
"""Two renewals may be lost before the third would be too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseWatch:
    """What one observer has seen of a driver's lease."""

    revision: int
    """Of ``state.json`` as last read."""
    since_ns: int
    """When the observer first saw this revision, on its own monotonic clock."""

    def observe(self, revision: int, now_ns: int) -> "LeaseWatch":
        """Take another look; a revision that grew starts the lease anew."""
        if revision == self.revision:
            return self
        return LeaseWatch(revision=revision, since_ns=now_ns)

    def is_expired(self, now_ns: int) -> bool:
        """Say whether the driver has been silent for a whole lease."""
        return now_ns - self.since_ns >= LEASE_NS
