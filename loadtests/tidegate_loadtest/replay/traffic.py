"""What is to be sent, and what became of it: columns, one entry per request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from tidegate_loadtest.arrivals.port import Instants

NEVER: Final = -1
"""In a column of instants: this did not happen."""
LOST: Final = 0
"""In place of a status: the connection closed, or could not be opened, before the reply came."""
LEFT: Final = 1
"""In place of a status: the caller left first, as he was told to."""
OPEN: Final = 2
"""In place of a status: no reply until the run was given up."""

Statuses = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Requests and when each is due."""

    at_ns: Instants
    requests: Sequence[bytes]
    """Whole HTTP/1.1 requests; they are sent in turn, again and again."""
    leave_after_ns: Instants | None = None
    """How long each caller waits for his reply, of shape ``(requests,)``; ``NEVER``: until it
    comes. ``None``: nobody leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One run; instants are nanoseconds after its start, arrays have shape ``(requests,)``."""

    at_ns: Instants
    """When each request was due."""
    sent_ns: Instants
    """When it left; ``NEVER`` if it did not."""
    ended_ns: Instants
    """When its reply was complete, or it ended otherwise; ``NEVER`` where it is ``OPEN``."""
    status: Statuses
    """Of the reply; else ``LOST``, ``LEFT`` or ``OPEN``."""
    codes: dict[int, str] = field(default_factory=dict)
    """What the body of a reply other than 200 named as its reason, by the request's place."""

    @classmethod
    def begin(cls, at_ns: Instants) -> "Log":
        """Make the log of a run in which nothing has happened yet."""
        never = np.full(at_ns.size, NEVER, np.int64)
        return cls(
            at_ns=at_ns,
            sent_ns=never,
            ended_ns=never.copy(),
            status=np.full(at_ns.size, OPEN, np.int16),
        )
