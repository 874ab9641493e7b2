"""How long each stage of a request took, one by one: for who looks for the time (--trace-stages).

The sums of ``spending`` are always counted and say where the time goes on the whole; these say how
it is spread. Off by default: to keep them costs about 3 µs a request.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidegate.units import Nanoseconds, ns_to_seconds
from tidegate_realtime.api.histogram import Histogram

STAGES: Final = ("decode", "queue", "batch", "run", "encode")
"""In the order in which a request goes through them; together its whole time here."""
_EDGES_S: Final = tuple(
    scale * step for scale in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) for step in (1, 2, 5)
)
"""1 µs, for the encoding of a number, to 5 s."""
_REMEMBERED_CALLS: Final = 64
"""More than begin while one request is in its call, even on many executors."""


class Took(NamedTuple):
    """One answered request, in nanoseconds."""

    arrived_at_ns: Nanoseconds
    """Its last byte."""
    decode_ns: int
    queue_ns: int
    execute_ns: int
    """From the choice of its batch until its answer was known."""
    encode_ns: int


class StageTimes:
    """Of one version; every call is made on the event loop's thread."""

    def __init__(self) -> None:
        self.by_stage: Mapping[str, Histogram] = {stage: Histogram(_EDGES_S) for stage in STAGES}
        self._begun_at_ns: deque[int] = deque(maxlen=_REMEMBERED_CALLS)

    def on_begin(self, now_ns: int) -> None:
        """Note that a batch has been stacked, and goes to the model."""
        self._begun_at_ns.append(now_ns)

    def on_answer(self, took: Took) -> None:
        """Note one answer.

        A call begins right after its batch was chosen, on the same thread, so that the first one
        to begin since then is its own. What rides in several calls is in ``run`` from the first
        one to the end of the last.
        """
        chosen_at_ns = took.arrived_at_ns + took.decode_ns + took.queue_ns
        place = bisect_left(self._begun_at_ns, chosen_at_ns)
        known = place < len(self._begun_at_ns)
        batch_ns = self._begun_at_ns[place] - chosen_at_ns if known else 0
        spent = (
            took.decode_ns,
            took.queue_ns,
            batch_ns,
            took.execute_ns - batch_ns,
            took.encode_ns,
        )
        for stage, spent_ns in zip(STAGES, spent, strict=True):
            self.by_stage[stage].observe(ns_to_seconds(spent_ns))

    def in_one_line(self) -> dict[str, float]:
        """Return the mean of each stage in µs, and of how many requests."""
        answered = sum(self.by_stage["decode"].counts)
        if not answered:
            return {"answered": 0}
        means = {
            f"{stage}_us": round(histogram.total / answered * 1e6, 1)
            for stage, histogram in self.by_stage.items()
        }
        return {"answered": answered, **means}
