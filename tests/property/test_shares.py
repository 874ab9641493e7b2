"""No class starves, whatever the others send: what 16 : 4 : 1 guarantees, and what it does not.

*In the queue.* Deficit round robin guarantees a share of what executors take, to a class that
always has rows waiting: over any such period at least its weight by the sum of all weights, but
for one round and one request (Shreedhar and Varghese, "Efficient fair queueing using deficit round
robin", SIGCOMM 1995). It is held to that with requests that nobody refuses, so that nothing but
the queue decides.

*At admission* there is no such share. Who is promised an answer keeps it whoever comes later, so
that a class finds room about as often as the others. Of two things, its part of what all classes
offered and its share of what is answered, each class gets at least half of the smaller.
"""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.profiles import load_profile
from tidegate.units import NS_PER_MS, NS_PER_SECOND, Nanoseconds
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.policies.building import Situation, build_policy
from tidegate_loadtest.simulate.simulator import Simulator
from tidegate_realtime.core.lanes import SHARES
from tidegate_realtime.core.request import Request, State

PROFILE = load_profile("linear:1:5")
OBJECTIVE_NS = Nanoseconds(60 * NS_PER_MS)
CAPACITY_RPS = 800
"""Rows that one executor can take in full batches of the objective: 30 rows in 35 ms."""
CLASSES = (1, 2, 3)
WEIGHTS = {each: SHARES[each - 1] for each in CLASSES}
ROUND = sum(WEIGHTS.values())
LARGEST_ROWS = 4

loads = st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0, 3.0]), min_size=3, max_size=3)
overloads = loads.filter(lambda each: sum(each) > 1.2)


def offered(
    rows_by_class: list[float], *, seconds: float, seed: int, largest_rows: int, sheddable: bool
) -> list[Request]:
    """Poisson traffic of each class, as multiples of the capacity."""
    random = Random(seed)
    requests = []
    for priority, load in zip(CLASSES, rows_by_class, strict=True):
        at_s = 0.0
        while load:
            rows = random.randint(1, largest_rows)
            at_s += random.expovariate(load * CAPACITY_RPS) * rows
            if at_s > seconds:
                break
            at_ns = Nanoseconds(int(at_s * NS_PER_SECOND))
            due_ns = Nanoseconds(at_ns + (OBJECTIVE_NS if sheddable else 3_600 * NS_PER_SECOND))
            requests.append(Request(rows, None, at_ns, due_ns, priority, sheddable))
    return sorted(requests, key=lambda request: request.arrived_at_ns)


def simulate(requests: list[Request], *, seed: int) -> None:
    situation = Situation(profile=PROFILE, executors=1, objective_ns=OBJECTIVE_NS)
    simulator = Simulator(build_policy("slo", situation), PaddedExecution(PROFILE, seed=seed))
    simulator.run(iter(requests))


def backlogs(priority: int, requests: list[Request]) -> list[tuple[int, int]]:
    """List the periods in which a class had rows waiting at every moment."""
    changes: Counter[int] = Counter()
    for request in requests:
        if request.priority == priority:
            assert request.started_at_ns is not None
            changes[request.arrived_at_ns] += request.rows
            changes[request.started_at_ns] -= request.rows
    periods, since_ns, waiting = [], 0, 0
    for at_ns, rows in sorted(changes.items()):
        if not waiting:
            since_ns = at_ns
        waiting += rows
        if not waiting:
            periods.append((since_ns, at_ns))
    return periods


@pytest.mark.field_fault("S-45")
@given(overloads, st.integers(1, LARGEST_ROWS), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_a_class_with_rows_waiting_gets_its_share_of_what_is_taken(
    rows_by_class: list[float], largest_rows: int, seed: int
) -> None:
    requests = offered(
        rows_by_class, seconds=1.0, seed=seed, largest_rows=largest_rows, sheddable=False
    )
    simulate(requests, seed=seed)
    assert all(request.state is State.ANSWERED for request in requests)
    for priority, weight in WEIGHTS.items():
        for since_ns, until_ns in backlogs(priority, requests):
            taken: Counter[int] = Counter()
            for request in requests:
                assert request.started_at_ns is not None
                if since_ns < request.started_at_ns < until_ns:
                    taken[request.priority] += request.rows
            all_rows = taken.total()
            assert taken[priority] >= weight / ROUND * (all_rows - ROUND) - LARGEST_ROWS


@given(overloads, st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_no_class_starves_where_most_are_refused(rows_by_class: list[float], seed: int) -> None:
    requests = offered(rows_by_class, seconds=3.0, seed=seed, largest_rows=1, sheddable=True)
    simulate(requests, seed=seed)
    arrived = Counter(request.priority for request in requests)
    answered = Counter(r.priority for r in requests if r.state is State.ANSWERED)
    part = answered.total() / arrived.total()
    for priority, weight in WEIGHTS.items():
        least = min(part * arrived[priority], weight / ROUND * answered.total())
        chance = 3 * least**0.5  # a Poisson count differs from its mean by so much at most
        assert answered[priority] >= 0.5 * least - chance
