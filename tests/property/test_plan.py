"""What a plan finds by bisection, against looking at every size."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.units import Nanoseconds
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import Plan
from tidegate_realtime.core.request import Request

OBJECTIVE_NS = Nanoseconds(1_000_000)
LARGEST = 24

measured = st.dictionaries(
    st.integers(1, LARGEST),
    st.lists(st.integers(1_000, 200_000), min_size=1, max_size=4),
    min_size=2,
    max_size=12,
)
"""By size, beside 20 µs for each row: some are slower than larger ones, and some vary much."""
starts = st.tuples(st.integers(0, 400_000), st.integers(0, 10**11))
deadlines = st.integers(0, 2_500_000)


@st.composite
def paces(draw: st.DrawFn) -> Pace:
    """Draw a model that was measured at some sizes, which may be all that are allowed."""
    samples = draw(measured)
    model = LatencyModel(percentile=0.99, sizes=sorted(samples) if draw(st.booleans()) else None)
    for rows, durations_ns in samples.items():
        for took_ns in durations_ns:
            model.observe(rows, 20_000 * rows + took_ns, Nanoseconds(0))
    pace = Pace(model, OBJECTIVE_NS, None, 1, BatchLimits())
    pace.caution = draw(st.floats(1, 3))
    pace.sizes = list(model.sizes)  # a cap that leaves many sizes to choose from
    pace.cap_rows = pace.sizes[-1]
    return pace


@given(paces(), starts, st.integers(0, LARGEST), deadlines, st.data())
def test_a_promise_is_the_largest_size_that_is_in_time(
    pace: Pace, start: tuple[int, int], least_rows: int, deadline_ns: int, draw: st.DataObject
) -> None:
    plan = Plan(pace, [start], most_rows=pace.cap_rows)
    if least_rows < pace.cap_rows and draw.draw(st.booleans()):  # at the edge of some size
        size = draw.draw(st.sampled_from(pace.sizes))
        deadline_ns = round(plan.ends_by_ns(size, start)) + draw.draw(st.integers(-1, 1))

    def in_time(rows: int) -> bool:
        return plan.ends_by_ns(rows, start) < deadline_ns

    if not least_rows:
        expected = 0
    elif in_time(pace.cap_rows):
        expected = pace.cap_rows
    elif least_rows >= pace.cap_rows or not in_time(least_rows):
        expected = 0
    else:
        larger = [size for size in pace.sizes if size > least_rows and in_time(size)]
        expected = max(larger, default=least_rows)
    assert plan.promise_rows(least_rows, start, deadline_ns) == expected


@given(paces(), starts, st.integers(1, LARGEST), st.integers(1, LARGEST), st.integers(-1, 1))
def test_the_room_of_a_batch_is_the_largest_size_that_ends_before_its_first_deadline(
    pace: Pace, start: tuple[int, int], most_rows: int, edge_rows: int, off_ns: int
) -> None:
    most_rows = min(most_rows, pace.cap_rows)
    plan = Plan(pace, [start], most_rows=most_rows)
    assert plan.room_rows() == most_rows, "nobody is in it who could be late"
    assert pace.model is not None
    deadline_ns = start[0] + pace.model.mean_ns(min(edge_rows, pace.cap_rows)) + off_ns
    plan.add(1, deadline_ns)

    def in_time(rows: int) -> bool:
        return start[0] + plan.model.mean_ns(rows) < deadline_ns

    smaller = [size for size in pace.sizes if size < most_rows and in_time(size)]
    expected = most_rows if in_time(most_rows) else max(smaller, default=most_rows)
    assert plan.room_rows() == expected


@given(paces(), starts, st.lists(st.integers(0, 2_500_000), max_size=12))
def test_whoever_is_appended_is_promised_no_more_than_if_every_size_was_looked_at(
    pace: Pace, start: tuple[int, int], later_ns: list[int]
) -> None:
    quick, slow = (Plan(pace, [start], most_rows=pace.cap_rows) for _ in range(2))
    for deadline_ns in sorted(later_ns):
        request = Request(1, None, Nanoseconds(0), Nanoseconds(deadline_ns))
        was_empty = not quick.rows
        if not quick.append(request, 0):
            break
        assert slow.has_room(1, deadline_ns)
        place = slow.rows + 1
        least_rows = max(place, 0 if was_empty else pace.need_rows)
        promised = slow.promise_rows(least_rows, slow.start, deadline_ns)
        assert request.reserved_rows in {promised, pace.need_rows}
        assert request.reserved_rows <= promised
        slow.add(1, deadline_ns)
        assert (quick.rows, quick.deadline_ns) == (slow.rows, slow.deadline_ns)
