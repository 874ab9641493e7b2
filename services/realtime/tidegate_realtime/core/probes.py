"""Probes: a few refused requests that run all the same, for nobody, to see whether they were late.

Without them a refusal is never tested, and a latency model that has become too gloomy could refuse
everything, see no batch any more, and never learn better. So one in a hundred refusals is a probe,
by a counter and not by dice, up to a thousandth of what is accepted; and where nothing waits or
runs, the refused request is, because else nothing might ever be learned. Whoever comes next waits
for it, so that these pause for as long as the last one took, and after each that was not quick
enough for whom it stood for twice as long, up to ``RAREST`` times. Nobody is tried whose deadline
has passed, for that refusal was right.

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
RAREST: Final = 64
"""Durations of a probe that lie between it and the next one at most, where nothing else teaches. A
model that believes to be too slow for everybody, because it was stopped once, learns by nothing
else that it is not: the more often it was right, the longer may it be wrong."""


class Pauses:
    """How long the next probe must wait for the last one."""

    __slots__ = ("_at_ns", "_times")

    def __init__(self) -> None:
        self._at_ns = 0
        self._times = 1

    def is_over(self, now_ns: Nanoseconds) -> bool:
        """Whether the next one may run."""
        return now_ns >= self._at_ns

    def on_ran(self, probe: Request, ran_ns: int, now_ns: Nanoseconds) -> None:
        """Take note that a call with a probe has ended.

        Args:
            probe: Its request.
            ran_ns: How long the call took.
            now_ns: When it ended.
        """
        was_quick = ran_ns < probe.deadline_at_ns - probe.arrived_at_ns
        self._times = 1 if was_quick else min(2 * self._times, RAREST)
        self._at_ns = now_ns + self._times * ran_ns


class Probes:
    """Counts refusals, and what became of the probes among them."""

    __slots__ = ("_pauses", "_refusals", "ended", "in_time", "started")

    def __init__(self) -> None:
        self._pauses = Pauses()
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
        self,
        request: Request,
        *,
        cap_rows: int,
        accepted: int,
        is_idle: bool,
        now_ns: Nanoseconds,
    ) -> Request | None:
        """Return a probe for a request that was refused; mostly ``None``.

        Args:
            request: What was refused.
            cap_rows: Most rows of the probe: the first ones of the request.
            accepted: Requests accepted so far.
            is_idle: Whether nothing waits or runs.
            now_ns: The present.
        """
        due = self.is_due(accepted) or (is_idle and self._pauses.is_over(now_ns))
        self._refusals += 1
        if not due:
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

    def on_ran(self, probe: Request, ran_ns: int, now_ns: Nanoseconds) -> None:
        """Take in how long a call with a probe took, whatever it came to; see ``Pauses.on_ran``."""
        self._pauses.on_ran(probe, ran_ns, now_ns)

    def on_answered(self, probe: Request, now_ns: Nanoseconds) -> None:
        """Take in that the last rows of a probe have ended."""
        if probe.rows < probe.stands_for_rows:
            return
        self.ended += 1
        self.in_time += now_ns <= probe.deadline_at_ns
