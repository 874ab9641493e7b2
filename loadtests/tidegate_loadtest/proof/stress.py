"""What must pass without a trace: a slow model, callers who leave, batches that fail."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidegate.units import NS_PER_SECOND, ns_to_seconds
from tidegate_loadtest.proof.gateway import Gateway
from tidegate_loadtest.proof.live import Live, send
from tidegate_loadtest.proof.setting import SLOW_FROM_S, SLOW_UNTIL_S, Setting
from tidegate_loadtest.proof.simulated import RECOVERED_S
from tidegate_loadtest.proof.targets import Line, share
from tidegate_loadtest.replay.result import ReplayResult
from tidegate_loadtest.replay.traffic import NEVER, Log, Traffic

CALM_S: Final = 8.0
"""Before and after: 3,000 answers, whose number varies by about 2 %."""
LEAVING: Final = 0.3
WARM_UP_S: Final = 1.0
"""The least that lies between the start of a profile's clock and a gateway that is ready."""
FAILURES: Final = 10
_SEED: Final = 2


def slowdown_lines(
    gateway: Gateway, setting: Setting, requests: Sequence[bytes], *, load: float
) -> Sequence[Line]:
    """Replay while every call takes twice as long for 20 s.

    The profile's clock started between the process and its warm-up. Both bounds are taken so
    that what is counted is more, never less, than what the target speaks of.
    """
    started_s = ns_to_seconds(gateway.ready_at_ns - gateway.spawned_at_ns)
    at_ns = setting.arrivals(load, SLOW_UNTIL_S + 12)
    run = send(gateway, setting, Traffic(at_ns=at_ns, requests=requests))
    slow = part(run.log, SLOW_FROM_S - started_s, SLOW_UNTIL_S - WARM_UP_S)
    after = part(run.log, SLOW_UNTIL_S - started_s + RECOVERED_S, SLOW_UNTIL_S + 12)
    during, recovered = (
        ReplayResult.of(each, objective_ns=setting.objective_ns) for each in (slow, after)
    )
    return [
        share(
            setting.name,
            f"missed while twice as slow, at {load:g}x",
            during.missed_ratio,
            high=0.05,
        ),
        share(
            setting.name,
            f"missed from 3 s after it, at {load:g}x",
            recovered.missed_ratio,
            high=0.01,
        ),
    ]


def cancel_lines(
    gateway: Gateway,
    setting: Setting,
    requests: Sequence[bytes],
    *,
    load: float,
    leaving_s: float,
) -> Sequence[Line]:
    """Let 30 % of the callers leave, at any moment of their wait, for a while."""
    at_ns = setting.arrivals(load, 2 * CALM_S + leaving_s)
    random = np.random.default_rng(_SEED)
    until_ns = (CALM_S + leaving_s) * NS_PER_SECOND
    leaves = (at_ns >= CALM_S * NS_PER_SECOND) & (at_ns < until_ns)
    leaves &= random.random(at_ns.size) < LEAVING
    patience_ns = (random.random(at_ns.size) * setting.objective_ns).astype(np.int64)
    traffic = Traffic(
        at_ns=at_ns, requests=requests, leave_after_ns=np.where(leaves, patience_ns, NEVER)
    )
    run = send(gateway, setting, traffic)
    what = f"{run.result.left} callers left"
    return [
        _throughput(setting, run, CALM_S + leaving_s, what),
        *_accounting(gateway, setting, run, what),
    ]


def failure_lines(
    gateway: Gateway,
    setting: Setting,
    requests: Sequence[bytes],
    poison: Sequence[bytes],
    *,
    load: float,
) -> Sequence[Line]:
    """Let a call raise once a second, ten times."""
    at_ns = setting.arrivals(load, 2 * CALM_S + FAILURES)
    sent = [requests[place % len(requests)] for place in range(at_ns.size)]
    for number, request in enumerate(poison):
        place = np.searchsorted(at_ns, (CALM_S + number) * NS_PER_SECOND)
        sent[int(place)] = request
    run = send(gateway, setting, Traffic(at_ns=at_ns, requests=sent))
    what = f"others: {dict(run.result.others)}"
    return [
        _throughput(setting, run, CALM_S + FAILURES, what),
        *_accounting(gateway, setting, run, "failing batches"),
    ]


def part(log: Log, from_s: float, until_s: float) -> Log:
    """Return the requests that were due in a time."""
    first, last = np.searchsorted(log.at_ns, [from_s * NS_PER_SECOND, until_s * NS_PER_SECOND])
    return Log(
        at_ns=log.at_ns[first:last],
        sent_ns=log.sent_ns[first:last],
        ended_ns=log.ended_ns[first:last],
        status=log.status[first:last],
    )


def _throughput(setting: Setting, run: Live, again_s: float, note: str) -> Line:
    """Compare answers in the objective after the trouble with those before, second by second."""
    before, after = (
        ReplayResult.of(part(run.log, at_s, at_s + CALM_S - 1), objective_ns=setting.objective_ns)
        for at_s in (1.0, again_s + 1)
    )
    # Of what was sent, where all of it can be answered: Poisson arrivals are not alike either.
    saturated = before.sent > 1.2 * before.in_objective
    sent = 1.0 if saturated else after.sent / max(1, before.sent)
    ratio = after.in_objective / before.in_objective / sent if before.in_objective else None
    return Line(
        where=setting.name,
        what=f"throughput after, of before ({note})",
        figure=ratio,
        low=0.95,
        high=1.05,
        unit="%",
    )


def _accounting(gateway: Gateway, setting: Setting, run: Live, what: str) -> Sequence[Line]:
    metrics = gateway.metrics()
    apart = metrics.sum("tidegate_arrivals_total") - metrics.sum("tidegate_requests_total")
    return [
        Line(where=setting.name, what="requests that hang", figure=float(run.result.open), high=0),
        Line(
            where=setting.name, what=f"arrivals without an outcome ({what})", figure=apart, high=0
        ),
    ]
