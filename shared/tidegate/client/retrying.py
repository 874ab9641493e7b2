"""Whether to try again, and when: the one decision about retries.

A prediction changes nothing, so that asking twice is safe; it is worth it only where the gateway
has said when to come back, or where no reply had begun. Everything else would fail again, or make
a busy gateway busier: nothing with status 4xx, 500 or 504 is sent a second time.
"""

from dataclasses import dataclass
from typing import Final

from tidegate.client.errors import ClientError, ConnectionFailedError, RejectedError
from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns

_LATER: Final = 0.25
"""Most that is added to what the gateway said, so that refused callers come back one by one. Never
less than it said, which would be refused again."""
_FIRST_WAIT_MS: Final = 50.0
"""After a lost connection: a load balancer has noticed by then, or a process has restarted."""
_MOST_DOUBLINGS: Final = 5
"""Of that wait, one with each further try."""
_USEFUL_NS: Final = NS_PER_MS
"""Least that the next try must have left; no network and model together take less."""
_OVERLOADED: Final = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often one call is sent at most."""

    tries: int = 3
    """The first one included; 1 never tries again."""

    def wait_ns(
        self, error: ClientError, *, tried: int, draw: float, left_ns: int
    ) -> Nanoseconds | None:
        """Decide how long to wait before the next try; ``None``: it ends with this error.

        Args:
            error: How the last try ended.
            tried: How many there have been.
            draw: Uniform in 0…1.
            left_ns: Until the deadline.
        """
        told_ms = _told_ms(error, tried, draw)
        if told_ms is None or tried >= self.tries or told_ms >= left_ns / NS_PER_MS:
            return None
        wait_ns = ms_to_ns(told_ms)
        return wait_ns if wait_ns + _USEFUL_NS <= left_ns else None


def _told_ms(error: ClientError, tried: int, draw: float) -> float | None:
    match error:
        case RejectedError(status=status, retry_after_ms=float(after_ms)) if status == _OVERLOADED:
            return max(0.0, after_ms) * (1 + _LATER * draw)
        case ConnectionFailedError(worth_another_try=True):
            doubled_ms = _FIRST_WAIT_MS * (1 << min(tried - 1, _MOST_DOUBLINGS))
            return doubled_ms * (1 + draw) / 2
        case _:
            return None
