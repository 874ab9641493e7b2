"""Admission: refuse at arrival what cannot be answered in time.

A request is admitted if its own answer is foretold before its deadline and nobody behind it is
pushed past theirs. Its own answer comes, with the objective's probability, at

    C(b) = start + Σ m_i + m(b) + f·√(z²·(Σ s_i² + s_running²) + (L(b) - m(b))²) + o

with the batches ahead as ``plan`` forms them, and b the largest allowed size for which C(b) still
fits: so much may its batch grow after the promise was made; f is ``Pace.caution``, and m and s are
scaled by c_m. At least b must be what the load needs.
What is admitted is queued in the same call, which is its reservation: the next request finds it
ahead of itself.

Most requests are the last of all, and are added to the plan of the request before, which costs
O(1); the plan is made again after each batch. One in the middle plans anew.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import sqrt
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_realtime.core.commands import Batch
from tidegate_realtime.core.deadline_queue import DeadlineQueue, Entry
from tidegate_realtime.core.elsewhere import behind_others
from tidegate_realtime.core.lanes import Lanes
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.plan import FOREVER, Free, Plan, batches_of
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.shares import Shares
from tidegate_realtime.core.sojourn import Sojourn
from tidegate_realtime.core.statistics import RefusalCode
from tidegate_realtime.core.turns import Seat

MOST_BEHIND: Final = 64
"""Batches behind a request that are looked at; with more, nobody is let in before them."""
STUCK: Final = 3
"""A call that has run this many times its promise is not expected to end."""
_HICCUP_SHARE: Final = 4
"""Unless that is less than this part of the objective: three times the 30 µs of a small network is
less than the event loop takes to learn that the call has ended, and 20 in 1,000 requests of 200
connections were refused for it."""
_LEAST_RETRY_NS: Final = NS_PER_MS
BULK: Final = 3
"""The class whose requests are all patient."""
FLUCTUATION: Final = 3.0
"""Standard deviations of Poisson arrivals that may stay away: beyond there is no hope."""


Step: TypeAlias = tuple[Request, int]
"""First request of a batch; and the place of the new request in it, 0 in those behind."""


class Refusal(NamedTuple):
    """Why a request is not admitted."""

    code: RefusalCode
    predicted_ns: Nanoseconds | None = None
    """From its arrival to its answer, had it been admitted."""
    retry_after_ns: Nanoseconds | None = None
    """When it would fit, if nothing else came."""
    is_open: bool = False
    """Whether it would fit if fewer others came than usual."""


class Admission:
    """Promises of one batcher; whoever changes what waits or runs calls ``forget``."""

    def __init__(self, pace: Pace, lanes: Lanes, sojourn: Sojourn, shares: Shares) -> None:
        self._pace = pace
        self._lanes = lanes
        self._sojourn = sojourn
        self._shares = shares
        self._plan: Plan | None = None
        self._valid_until_ns = 0
        self._is_idle = False  # an executor would begin the open batch at once
        self.seat: Seat | None = None
        """The place among the models that share executors; ``None``: they are its own."""

    def forget(self) -> None:
        """Plan anew for the next request: batches have started or ended, or rows have left."""
        self._plan = None

    def on_start(self, batch: Batch, now_ns: Nanoseconds) -> int | None:
        """Take note of a batch that is about to start; return what is promised of its call.

        Where executors are shared, who waits for others and then rides in a small batch has waited
        no longer than it could.
        """
        self.forget()
        if self._shares.is_contested:
            self._shares.on_start(batch)
        pace, seat = self._pace, self.seat
        model = pace.model
        if model is None or pace.objective_ns is None or not pace.sizes:
            return None
        tail_ns = model.tail_ns(min(batch.rows, model.largest_size))
        is_alone = seat is None or not seat.turns.is_scarce
        call_ns = model.tail_ns(pace.calm_rows) if is_alone else tail_ns
        waited_ns = now_ns - batch.pieces[-1].request.arrived_at_ns
        busy_ns = call_ns + pace.overhead_ns
        self._sojourn.on_dispatch(waited_ns, busy_ns, pace.objective_ns, now_ns)
        return tail_ns

    def admit(
        self, request: Request, running: Sequence[Batch], retries: Sequence[Batch], now_ns: int
    ) -> Refusal | None:
        """Queue a request, or say why not.

        Args:
            request: It has just arrived, and is sheddable.
            running: Batches that executors run.
            retries: Parts of failed batches, which go first.
            now_ns: The present.
        """
        lanes, pace = self._lanes, self._pace
        if request.priority != self._shares.sole:
            self._shares.on_arrival(request, now_ns)
        limit_ns = pace.objective_ns or FOREVER
        if request.priority == BULK or request.deadline_at_ns - request.arrived_at_ns > limit_ns:
            request.is_patient = True
        lane = lanes.lane_of(request)
        is_last = (
            lane.rows == lanes.rows and request.rows <= pace.cap_rows and lane.goes_last(request)
        )
        plan = self._plan
        if (
            plan is None
            or not is_last
            or now_ns > self._valid_until_ns
            or (request.is_patient and lanes.is_first_patient(request))
        ):
            self._plan = None
            self._sojourn.relax(now_ns)
            free = self._free(running, retries, now_ns)
            if self.seat is not None:
                free = behind_others(self.seat, free, request.deadline_at_ns, Nanoseconds(now_ns))
                self._is_idle = self._is_idle and any(at_ns <= now_ns for at_ns, _ in free)
            if not free:
                return Refusal("backend_unavailable")
            plan = Plan(pace, free, most_rows=lanes.limit_rows(pace, request))
            if not is_last:
                return self._admit_within(request, lane, plan)
            if lane.rows:
                self._plan_lane(lane, plan)
            self._plan = plan
        return self._admit_last(request, plan)

    def refuse_unread(self, request: Request, now_ns: int) -> Refusal | None:
        """Refuse what nobody has read yet, if that is certain; ``None``: it must be read first.

        Args:
            request: With one row, of any shape: more rows would be refused all the more.
            now_ns: The present.
        """
        lanes, plan = self._lanes, self._plan
        if plan is None or now_ns > self._valid_until_ns or self._is_idle:
            return None
        lane = lanes.lane_of(request)
        if lane.rows != lanes.rows or not lane.is_last_at(request.deadline_at_ns):
            return None
        refusal = self._promise_last(request, plan)
        if refusal is None or refusal.is_open:
            return None
        self._shares.on_arrival(request, now_ns)
        return refusal

    def _admit_last(self, request: Request, plan: Plan) -> Refusal | None:
        rows, deadline_ns = request.rows, request.deadline_at_ns
        if not self._shares.is_contested and plan.append(request, self._sojourn.strictness_ns):
            self._lanes.push(request)
            return None
        refusal = self._promise_last(request, plan)
        if refusal is None:
            plan.add(rows, deadline_ns)
            self._lanes.push(request)
        return refusal

    def _promise_last(self, request: Request, plan: Plan) -> Refusal | None:
        rows, deadline_ns = request.rows, request.deadline_at_ns
        if plan.has_room(rows, deadline_ns):
            place, start = plan.rows + rows, plan.start
        else:
            place, start = rows, plan.next_start
        need_rows = 0 if self._is_idle and not plan.rows else self._pace.need_rows
        least_rows = max(place, need_rows)
        if self._shares.is_contested:
            least_rows = self._least_rows(request, plan, start, place, need_rows)
        strict_ns = deadline_ns - self._sojourn.strictness_ns
        promised = plan.promise_rows(least_rows, start, strict_ns)
        if not promised:
            return self._unreachable(request, plan, start, place, least_rows)
        request.reserved_rows = promised
        request.predicted_at_ns = Nanoseconds(int(plan.ends_by_ns(promised, start)))
        return None

    def _admit_within(self, request: Request, lane: DeadlineQueue, plan: Plan) -> Refusal | None:
        """Queue it for a try, and withdraw it if somebody would be late by it, or itself."""
        lanes = self._lanes
        lanes.push(request)
        entries = lane.single_rows() if lane.rows == lanes.rows else None
        if entries is None:
            batches = batches_of(lanes.in_order(), self._pace.cap_rows)
            refusal = self._try(request, _each_batch(plan, batches, request), plan)
        else:
            at = bisect_right(entries, request.deadline_at_ns, key=itemgetter(0)) - 1
            refusal = self._try(request, _each_jump(plan, entries, at), plan)
            if refusal is None:
                self._plan = plan
        if refusal is not None:
            lanes.withdraw(request)
        return refusal

    def _try(self, request: Request, steps: Iterator[Step], plan: Plan) -> Refusal | None:
        """Promise its own batch, and look at every batch behind it."""
        need_rows = 0 if self._is_idle and plan.batches == 1 else self._pace.need_rows
        moved: list[tuple[Request, int]] = []
        harms = False
        for head, place in steps:
            start = plan.start
            if place:
                strict_ns = request.deadline_at_ns - self._sojourn.strictness_ns
                least_rows = max(place, need_rows)
                if self._shares.is_contested:
                    least_rows = self._least_rows(request, plan, start, place, need_rows)
                promised = plan.promise_rows(least_rows, start, strict_ns)
                moved = [(request, promised)]
                own_start, own_place = start, place
            else:
                promised = plan.promise_rows(plan.rows, start, plan.deadline_ns)
                moved.append((head, min(head.reserved_rows, promised)))
                harms = True
            if not promised or len(moved) > MOST_BEHIND:
                refusal = self._unreachable(request, plan, own_start, own_place, least_rows)
                return refusal._replace(is_open=refusal.is_open and not harms)
        for each, rows in moved:
            each.reserved_rows = rows
        ends_by_ns = plan.ends_by_ns(request.reserved_rows, own_start)
        request.predicted_at_ns = Nanoseconds(int(ends_by_ns))
        return None

    def _least_rows(
        self, request: Request, plan: Plan, start: Free, place: int, need_rows: int
    ) -> int:
        """Return the size that its batch must be able to have; 0: its place is for other classes.

        The company that it must leave room for is that of its own class, and what others are owed.
        """
        ahead_rows, room_rows = plan.ahead_rows, plan.room_rows()
        if start != plan.start:  # it begins the next one
            ahead_rows, room_rows = ahead_rows + plan.rows, plan.most_rows
        left_rows = self._shares.left_rows(request, ahead_rows + room_rows, start[0])
        first_row = place - min(request.rows, room_rows) + 1
        if first_row + left_rows > room_rows:
            return 0
        company_rows = self._shares.company_rows(request, start[0])
        return max(min(place + left_rows, room_rows), min(need_rows, place + company_rows))

    def _unreachable(
        self, request: Request, plan: Plan, start: Free, place: int, least_rows: int
    ) -> Refusal:
        pace = self._pace
        rows = min(least_rows or pace.cap_rows, pace.cap_rows)
        answered_at_ns = int(plan.ends_by_ns(rows, start))
        late_ns = answered_at_ns - request.deadline_at_ns + self._sojourn.strictness_ns
        return Refusal(
            "deadline_unreachable",
            Nanoseconds(answered_at_ns - request.arrived_at_ns),
            Nanoseconds(max(late_ns, _LEAST_RETRY_NS)),
            is_open=not self._is_idle and self._is_open(request, start[0], place),
        )

    def _is_open(self, request: Request, start_ns: float, place: int) -> bool:
        """Whether it would be in time, on average, if far fewer others came than usual.

        And whether that is known before half of its time has passed.
        """
        pace = self._pace
        assert pace.model is not None
        if start_ns >= request.half_time_at_ns:
            return False
        expected = pace.rows_per_second * (start_ns - request.arrived_at_ns) / NS_PER_SECOND
        fewest = max(0.0, expected - FLUCTUATION * sqrt(max(0.0, expected)))
        rows = place + int(fewest)
        if rows > pace.cap_rows and not self._shares.is_contested:
            return False  # even they fill the batch, and of those who stand by the last rides first
        in_call_ns = pace.overhead_ns + pace.model.mean_ns(min(rows, pace.cap_rows))
        return start_ns + in_call_ns < request.deadline_at_ns

    def _plan_lane(self, lane: DeadlineQueue, plan: Plan) -> None:
        entries = lane.single_rows()
        if entries is None:
            for request in lane.in_order():
                plan.add(request.waiting_rows, deadline_of(request))
        else:
            for _ in plan.fill(entries):
                pass

    def _free(self, running: Sequence[Batch], retries: Sequence[Batch], now_ns: int) -> list[Free]:
        """Foretell when each executor is free; one that seems to hang is not counted on."""
        model = self._pace.model
        assert model is not None
        assert self._pace.objective_ns is not None
        hiccup_ns = self._pace.objective_ns // _HICCUP_SHARE
        free: list[Free] = []
        until_ns = FOREVER
        for batch in running:
            rows, ran_ns = min(batch.rows, model.largest_size), now_ns - batch.started_at_ns
            mean_ns = model.mean_ns(rows)
            if ran_ns > hiccup_ns and ran_ns > STUCK * model.tail_ns(rows):
                if not batch.is_overdue:
                    batch.is_overdue = True
                    model.observe_running(rows, ran_ns, Nanoseconds(now_ns))
                continue
            left_ns = mean_ns - ran_ns if ran_ns < mean_ns else model.rest_ns(rows, ran_ns)
            until_ns = min(until_ns, now_ns + left_ns)
            free.append((now_ns + left_ns, model.std_ns(rows) ** 2))
        self._is_idle = len(running) < self._pace.executors
        if self._is_idle:
            until_ns = now_ns
            free += [(now_ns, 0.0)] * (self._pace.executors - len(running))
        self._valid_until_ns = until_ns
        for batch in retries if free else ():
            free.sort()
            at_ns, variance = free[0]
            free[0] = (at_ns + model.mean_ns(min(batch.rows, model.largest_size)), variance)
        return free


def _each_jump(plan: Plan, entries: Sequence[Entry], at: int) -> Iterator[Step]:
    """Fill a plan, and stop at the batch with the row ``at`` and at all behind it."""
    for first in plan.fill(entries):
        if at < first:
            yield entries[first][2], 0
        elif at < first + plan.rows:
            yield entries[first][2], at - first + 1


def _each_batch(plan: Plan, batches: Sequence[list[Request]], new: Request) -> Iterator[Step]:
    """Fill a plan batch by batch, and stop at the one with the new request and all behind it."""
    found = False
    for batch in batches:
        plan.close()
        place = 0
        for request in batch:
            plan.add(request.waiting_rows, deadline_of(request))
            if request is new:
                place = plan.rows
        if found or place:
            yield batch[0], place
        found = found or place > 0


def deadline_of(request: Request) -> int:
    """Return until when a request must be answered; for ever if it may not be shed."""
    return request.deadline_at_ns if request.sheddable else FOREVER
