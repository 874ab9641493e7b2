"""Which rows an idle executor gets: size first, victims only when needed.

As many rows as the cap allows, unless one of them would be late on average; then the largest
allowed size that all its rows can bear, as long as that is company enough; else the row that asks
for less is given up, because a small batch for its sake would make many others late. Judged by the
mean: admission has judged by the tail, and to do so twice drops what was admitted (simulated at
four times the capacity: 4 to 30 % against 0.4 %).

Company enough is what the present load needs, or what the row was promised if that is less: a load
that grows later does not cost it its place. Nor does a batch of nearly the same throughput: without
that, under overload, when the load needs full batches, a row would be given up because one row
less is in time (simulated on the published V100 curve at twice the capacity: 6 % missed, not 0).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Piece
from tidegate_realtime.core.deadline_queue import ANY_SHAPE
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request

NEARLY: Final = 0.9
"""Share of the throughput of the batch that would be taken otherwise."""


@dataclass(slots=True, eq=False)  # not frozen: one is made for each batch
class Choice:
    """How many rows to take, or whom to give up first."""

    rows: int
    """Most rows to take."""
    is_shrunk: bool = False
    """Whether more would have fitted the cap."""
    victim: Request | None = None
    """Cannot be answered without harm to the others: drop it and choose again."""
    is_mixed: bool = False
    """Whether what is taken may hold other rows than reckoned with; see ``late_among``."""


def choose(lanes: Lanes, pace: Pace, now_ns: Nanoseconds) -> Choice:
    """Choose for an executor that is idle now; rows wait."""
    model = pace.model
    if model is None or not pace.sizes:
        return Choice(pace.cap_rows)
    most_rows = lanes.limit_rows(pace)
    rows = min(most_rows, lanes.rows)
    begin_ns = now_ns + pace.overhead_ns
    lane = lanes.sole()
    first = lane.first() if lane is not None else None
    if lane is not None and first is not None and first.sheddable:
        if begin_ns + model.mean_ns(rows) < first.deadline_at_ns:
            return Choice(most_rows)
        least_rows = lane.least_rows(pace.cap_rows)
        choice = _shrink([(first, 0)], rows, pace, begin_ns, least_rows)
    else:
        choice = _choose_among_several(lanes, pace, rows, begin_ns)
    if choice.rows == rows:
        choice.rows = most_rows
    return choice


def _choose_among_several(lanes: Lanes, pace: Pace, rows: int, begin_ns: int) -> Choice:
    """Choose where the first row need not be the most urgent one."""
    urgent: list[tuple[Request, int]] = []  # each more urgent than all before it, and its place
    place = least_rows = 0
    key: Hashable = ANY_SHAPE
    for request in lanes.in_order():
        if place >= rows:
            break
        if key is not ANY_SHAPE and request.shape_key != key:
            continue
        if key is ANY_SHAPE:
            key = request.shape_key
            least_rows = request.waiting_rows if request.rows <= pace.cap_rows else 1
        if request.sheddable and (
            not urgent or request.deadline_at_ns < urgent[-1][0].deadline_at_ns
        ):
            urgent.append((request, place))
        place += request.waiting_rows
    choice = _shrink(urgent, rows, pace, begin_ns, least_rows)
    choice.is_mixed = True
    return choice


def late_among(pieces: list[Piece], pace: Pace, now_ns: Nanoseconds) -> list[Request]:
    """List whom a batch would answer too late; for batches of several classes.

    These are filled in turns, in which large requests are cut: where that does not come out as
    ``choose`` has reckoned, nobody shall be run in vain.
    """
    model = pace.model
    if model is None or not pace.sizes:
        return []
    rows = sum(piece.rows for piece in pieces)
    end_ns = now_ns + pace.overhead_ns + model.mean_ns(rows)
    return [
        piece.request
        for piece in pieces
        if piece.request.sheddable and piece.request.deadline_at_ns <= end_ns
    ]


def _shrink(
    urgent: list[tuple[Request, int]], rows: int, pace: Pace, begin_ns: int, least_rows: int
) -> Choice:
    model = pace.model
    assert model is not None
    victim = urgent[-1][0] if urgent else None
    smaller = (size for size in reversed(pace.sizes) if least_rows <= size < rows)
    for size in chain((rows,), smaller):
        while urgent and urgent[-1][1] >= size:
            urgent.pop()
        last = urgent[-1][0] if urgent else None
        if last is None or begin_ns + model.mean_ns(size) < last.deadline_at_ns:
            if size == rows:
                return Choice(rows)
            if size >= _enough(last, pace) or _is_nearly_as_good(size, rows, model):
                return Choice(size, is_shrunk=True)
            break
    return Choice(0, victim=victim)


def _is_nearly_as_good(size: int, rows: int, model: LatencyModel) -> bool:
    return size * model.mean_ns(rows) >= NEARLY * rows * model.mean_ns(size)


def _enough(urgent: Request | None, pace: Pace) -> int:
    reserved = urgent.reserved_rows if urgent is not None else 0
    return min(pace.need_rows, reserved) if reserved else pace.need_rows
