"""The safety net for a model that is wrong: CoDel on the time that requests wait.

Admission foretells waits. If for 100 ms even the shortest wait is longer than an admitted request
can afford, the forecast is wrong, whatever the model says, and deadlines are believed a little
less until the waits are short again (Nichols and Jacobson, "Controlling queue delay", CACM 55(7),
2012: the least sojourn of an interval tells a standing queue from a burst).
"""

from typing import Final

from tidegate.units import NS_PER_MS, Nanoseconds

INTERVAL_NS: Final = 100 * NS_PER_MS
_STANDING: Final = 10
"""Part of the objective below which a wait is no standing queue, whatever can be afforded."""
_STRICTEST: Final = 2
"""Part of the objective that strictness takes at most: beyond, nobody would be let in to show that
waits are short again."""


class Sojourn:
    """Watches the least wait of each interval."""

    __slots__ = ("_ends_at_ns", "_least_ns", "strictness_ns")

    def __init__(self) -> None:
        self._ends_at_ns = 0
        self._least_ns: int | None = None
        self.strictness_ns = Nanoseconds(0)
        """By how much earlier than its deadline an answer must be foretold."""

    def on_dispatch(
        self, waited_ns: int, busy_ns: int, objective_ns: int, now_ns: Nanoseconds
    ) -> None:
        """Take in a batch that starts.

        Args:
            waited_ns: The shortest wait of its rows.
            busy_ns: What the call and all beside it take, that is not waiting.
            objective_ns: How long a request may take in all.
            now_ns: When it starts.
        """
        if now_ns >= self._ends_at_ns:
            self.relax(now_ns)
        if self._least_ns is None or waited_ns < self._least_ns:
            self._least_ns = waited_ns
        if now_ns < self._ends_at_ns:
            return
        affordable_ns = max(objective_ns - busy_ns, objective_ns // _STANDING)
        excess_ns = self._least_ns - affordable_ns
        before_ns = self.strictness_ns
        after_ns = before_ns + excess_ns if excess_ns > 0 else before_ns // 2
        self.strictness_ns = Nanoseconds(min(after_ns, objective_ns // _STRICTEST))
        self._least_ns = None
        self._ends_at_ns = now_ns + INTERVAL_NS

    def relax(self, now_ns: int) -> None:
        """Halve the strictness for each whole interval in which nothing has started."""
        quiet = (now_ns - self._ends_at_ns) // INTERVAL_NS
        if quiet > 0:
            self.strictness_ns = Nanoseconds(self.strictness_ns >> min(quiet, 64))
            self._ends_at_ns += quiet * INTERVAL_NS
