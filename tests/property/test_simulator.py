"""Whatever arrives, and whoever leaves: every policy ends every request exactly once."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidegate.profiles import load_profile
from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.executors import PaddedExecution
from tidegate_loadtest.simulate.policies.building import ALL, Situation, build_policy
from tidegate_loadtest.simulate.simulator import Simulator
from tidegate_realtime.core.request import Request, State

MS = 1_000_000
ENDED = {State.ANSWERED, State.REJECTED, State.EXPIRED, State.CANCELLED, State.FAILED}


@given(
    policy=st.sampled_from(ALL),
    gaps_ms=st.lists(st.sampled_from([0.0, 0.1, 1.0, 30.0]), max_size=40),
    objectives_ms=st.lists(st.sampled_from([1, 20, 100]), min_size=1, max_size=3),
    executors=st.integers(1, 3),
    shares=st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.3, 1.0])),
    seed=st.integers(0, 3),
)
def test_every_request_ends_once_under_every_policy(
    policy: str,
    gaps_ms: list[float],
    objectives_ms: list[int],
    executors: int,
    shares: tuple[float, float],
    seed: int,
) -> None:
    leaving, failing = shares
    random, dice = Random(seed), Random(seed + 1)
    profile = load_profile("linear:1:5")
    at_ns, requests = 0, []
    for place, gap_ms in enumerate(gaps_ms):
        at_ns += int(gap_ms * MS)
        objective_ns = objectives_ms[place % len(objectives_ms)] * MS
        requests.append(Request(1, None, Nanoseconds(at_ns), Nanoseconds(at_ns + objective_ns)))

    def leaves_at(request: Request) -> Nanoseconds | None:
        left_ns = random.randrange(40 * MS)
        return Nanoseconds(request.arrived_at_ns + left_ns) if random.random() < leaving else None

    situation = Situation(
        profile=profile, executors=executors, objective_ns=Nanoseconds(max(objectives_ms) * MS)
    )
    simulator = Simulator(
        build_policy(policy, situation),
        PaddedExecution(profile, seed=seed),
        executors=executors,
        patience=leaves_at,
        mishap=lambda _: dice.random() < failing,
    )
    recording = simulator.run(iter(requests))
    states = Counter(request.state for request in requests)
    assert set(states) <= ENDED
    assert states[State.ANSWERED] == len(recording.answered_at_ns)
    assert states[State.REJECTED] == len(recording.rejected_at_ns)
    assert states[State.EXPIRED] == len(recording.expired_at_ns)
    assert states[State.FAILED] == len(recording.failed_at_ns)
    assert states[State.CANCELLED] == recording.cancelled
    assert (recording.cancelled == 0) or leaving > 0
    assert (states[State.FAILED] == 0) or failing > 0
    assert (states[State.ANSWERED] == 0) or failing < 1
