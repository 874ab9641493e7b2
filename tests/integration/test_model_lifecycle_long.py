"""Fifty switches, a corrupt version between any two, and what they cost: `make bench-switches`."""

import sys
from pathlib import Path

import pytest

from tests.fixtures.gateways import running_gateway
from tests.fixtures.switching import (
    CORRUPT,
    RISK,
    STABLE,
    Callers,
    Operator,
    proc_status,
    publish_versions,
    until,
)
from tidegate.artifacts.store import ArtifactStore
from tidegate.ids import Version
from tidegate.objects.local import LocalObjectStore

SWITCHES = 50
SETTLED = 10
"""Switches after which allocator and thread pool have what they need."""
MOST_KIB = 16 * 1024
"""Growth that is no leak: forty versions that stayed would be many times as much."""
POOL_THREADS = 3
BEFORE = 3_000
"""Answers that tell how long callers wait without a switch."""


def p99_ms(seconds: list[float]) -> float:
    return 1_000 * sorted(seconds)[int(0.99 * (len(seconds) - 1))]


@pytest.mark.long
@pytest.mark.field_fault("S-47", "S-48")
def test_fifty_switches_cost_no_answer_no_memory_and_no_thread(tmp_path: Path) -> None:
    store = publish_versions(tmp_path)
    artifacts = ArtifactStore(LocalObjectStore(store))
    follow = {"TIDEGATE_SERVE__FOLLOW_ALIASES_MS": "50"}
    arguments = ("--model", "risk", "--slo-ms", "20000", "--grpc-port", "0")
    with (
        running_gateway(store, *arguments, environment=follow) as gateway,
        Operator(gateway.admin_url) as operator,
        Callers(gateway.url, number=2).asking() as callers,
    ):
        until(lambda: bool(operator.states()) and len(callers.seconds) >= BEFORE, tries=100_000)
        before = callers.seconds[:BEFORE]
        for number in range(SWITCHES):
            if number == SETTLED:
                rss_kib = proc_status(gateway.process.pid, "VmRSS")
                threads = proc_status(gateway.process.pid, "Threads")
            artifacts.move_alias(RISK, STABLE, Version(CORRUPT))
            until(lambda: operator.states().get(CORRUPT) == "failed")
            wanted = 2 - number % 2
            artifacts.move_alias(RISK, STABLE, Version(wanted))
            until(lambda wanted=wanted: operator.states() == {wanted: "ready"})  # type: ignore[misc] # a default
        during = callers.seconds[BEFORE:]
        grown_kib = proc_status(gateway.process.pid, "VmRSS") - rss_kib
        ratio = p99_ms(during) / p99_ms(before)
        sys.stdout.write(
            f"\n{SWITCHES} switches: {len(during)} answers, {len(callers.faults)} faults; p99 "
            f"{p99_ms(before):.1f} ms before, {p99_ms(during):.1f} ms meanwhile ({ratio:.2f} x); "
            f"{grown_kib} KiB more after the first {SETTLED}\n"
        )
        assert callers.faults == []
        assert min(callers.answers["1"], callers.answers["2"]) > SWITCHES
        assert grown_kib < MOST_KIB
        assert proc_status(gateway.process.pid, "Threads") <= threads + POOL_THREADS
