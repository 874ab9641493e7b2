"""Probes: a few refused requests that run all the same, for nobody, to see whether they were late.

Without them a refusal is never tested, and a latency model that has become too gloomy could refuse
everything, see no batch any more, and never learn better. So one in a hundred refusals is a probe,
by a counter and not by dice, up to a thousandth of what is accepted; and whenever nothing waits or
runs, the refused request is, because then it costs nobody anything.

A probe has no more rows than one batch, so that it holds an executor no longer than a batch does.
With fewer rows than its request it teaches how long batches take; whether the request would have
been in time it cannot say, and is not counted as if it could.
"""

from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.request import Request

EVERY: Final = 100
"""Refusals between two probes."""
SHARE: Final = 1_000
"""Accepted requests for each probe, at least."""


class Probes:
    """Counts refusals, and what became of the probes among them."""

    __slots__ = ("_refusals", "ended", "in_time", "started")

    def __init__(self) -> None:
        self._refusals = 0
        self.started = 0
        self.ended = 0
        """Those that had all rows of their request."""
        self.in_time = 0
        """Ended before the deadline of the request that they stand for."""

    def is_due(self, accepted: int) -> bool:
        """Whether the next refusal will be tried; ``accepted``: requests so far."""
        return self._refusals + 1 >= EVERY and (self.started + 1) * SHARE <= accepted

    def stand_in(
        self, request: Request, *, cap_rows: int, accepted: int, is_idle: bool
    ) -> Request | None:
        """Return a probe for a request that was refused; mostly ``None``.

        Args:
            request: What was refused.
            cap_rows: Most rows of the probe: the first ones of the request.
            accepted: Requests accepted so far.
            is_idle: Whether nothing waits or runs.
        """
        due = self.is_due(accepted)
        self._refusals += 1
        if not due and not is_idle:
            return None
        self._refusals = 0
        self.started += 1
        return Request(
            min(request.rows, cap_rows),
            request.shape_key,
            request.arrived_at_ns,
            request.deadline_at_ns,
            request.priority,
            sheddable=False,
            size_bytes=request.size_bytes,
            is_probe=True,
            stands_for_rows=request.rows,
        )

    def on_answered(self, probe: Request, now_ns: Nanoseconds) -> None:
        """Take in that the last rows of a probe have ended."""
        if probe.rows < probe.stands_for_rows:
            return
        self.ended += 1
        self.in_time += now_ns <= probe.deadline_at_ns
