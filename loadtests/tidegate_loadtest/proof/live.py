"""The same traffic over HTTP, to a gateway that runs here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tidegate.units import ns_to_seconds
from tidegate_loadtest.arrivals.port import Instants
from tidegate_loadtest.proof.gateway import HOST, Gateway
from tidegate_loadtest.proof.setting import LOADS, Setting
from tidegate_loadtest.proof.simulated import Simulated
from tidegate_loadtest.proof.targets import (
    Line,
    Promises,
    agreement,
    goodput_lines,
    promise_lines,
    share,
)
from tidegate_loadtest.replay.result import ReplayResult, percentile_ms
from tidegate_loadtest.replay.sending import replay
from tidegate_loadtest.replay.traffic import Log, Traffic

BARE_MS: Final = 5.0
"""What the model takes for one call where the rest of a request is measured."""
LIVE_REQUEST: Final = b"GET /v2/health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One run, by the client's clock and by the gateway's own counters."""

    result: ReplayResult
    log: Log = field(repr=False)
    mean_batch_rows: float
    mean_call_ms: float
    busy: float
    """Time in model calls, of the run's."""
    promises: Promises


def send(gateway: Gateway, setting: Setting, traffic: Traffic) -> Live:
    """Replay traffic, and read what the gateway counted meanwhile.

    Raises:
        OSError: The gateway does not answer.
    """
    before = gateway.metrics()
    log = replay(traffic, host=HOST, port=gateway.port)
    after = gateway.metrics()

    def grown(name: str, *labels: str) -> float:
        return after.sum(name, *labels) - before.sum(name, *labels)

    calls, foretold = (
        grown("tidegate_batch_rows_count"),
        grown("tidegate_call_forecast_ratio_count"),
    )
    kept = grown("tidegate_call_forecast_ratio_bucket", 'le="1.0"')
    executed_s = grown("tidegate_execution_seconds_sum")
    ended_s = ns_to_seconds(int(max(np.max(log.ended_ns, initial=1), log.at_ns[-1])))
    result = ReplayResult.of(log, objective_ns=setting.objective_ns)
    return Live(
        result=result,
        log=log,
        mean_batch_rows=grown("tidegate_batch_rows_sum") / max(1.0, calls),
        mean_call_ms=1_000 * executed_s / max(1.0, calls),
        busy=executed_s / ended_s,
        promises=Promises(
            covered=kept / foretold if foretold else None,
            missed=result.missed_ratio,
            refused=sum(result.rejected.values()) / result.sent,
            probes=int(grown("tidegate_probes_total")),
            probes_in_time=int(grown("tidegate_probes_total", 'would_have_met="true"')),
        ),
    )


def send_loads(
    gateway: Gateway, setting: Setting, requests: Sequence[bytes], *, duration_s: float
) -> Mapping[float, Live]:
    """Replay every load, one after the other."""
    return {
        load: send(
            gateway,
            setting,
            Traffic(at_ns=setting.arrivals(load, duration_s), requests=requests),
        )
        for load in LOADS
    }


def load_lines(setting: Setting, runs: Mapping[float, Live]) -> Sequence[Line]:
    """Hold what ``send_loads`` found to the targets."""
    rates_rps = {load: run.result.goodput_rps for load, run in runs.items()}
    lines: list[Line] = []
    for load, run in runs.items():
        lines += promise_lines(setting.name, load, run.promises, note=_client(run))
        if load > 1:
            lines += goodput_lines(setting.name, load, rates_rps)
            lines += _overload_lines(setting, load, run)
    most = max(runs)
    refused_ms = runs[most].result.rejected_p99_ms
    what = f"time to a refusal, p99 at {most:g}x"
    return [*lines, Line(where=setting.name, what=what, figure=refused_ms, high=5.0, unit="ms")]


def _overload_lines(setting: Setting, load: float, run: Live) -> Sequence[Line]:
    rows, cap_rows, at = run.mean_batch_rows, setting.cap.calm_rows, f"at {load:g}x"
    what, note = f"rows in a batch, of b_slo, {at}", f"{rows:.1f} of {cap_rows} rows"
    return [
        share(setting.name, f"executor idle {at}", max(0.0, 1 - run.busy), high=0.02),
        share(setting.name, what, rows / cap_rows, low=0.95, note=note),
    ]


def agreement_lines(
    setting: Setting, runs: Mapping[float, Live], simulated: Mapping[float, Simulated]
) -> Sequence[Line]:
    """Compare p50, p99 and goodput with the simulation of the same arrivals."""
    lines = []
    for load, run in runs.items():
        live, model = run.result, simulated[load].result
        lines += [
            agreement(
                setting.name,
                f"p50 against simulated at {load:g}x",
                live=live.p50_ms,
                simulated=model.p50_ms,
                unit="ms",
            ),
            agreement(
                setting.name,
                f"p99 against simulated at {load:g}x",
                live=live.p99_ms,
                simulated=model.p99_ms,
                unit="ms",
            ),
            agreement(
                setting.name,
                f"goodput against simulated at {load:g}x",
                live=live.goodput_rps,
                simulated=model.goodput_rps,
                unit="/s",
            ),
        ]
    return lines


def added_latency_lines(gateway: Gateway, request: bytes, *, requests: int = 300) -> Sequence[Line]:
    """Ask one at a time, of a model that always takes ``BARE_MS``.

    What a request for nothing takes on the same server is HTTP's own time, and not counted.
    """
    at_ns = evenly(requests, every_ms=3 * BARE_MS)

    def percentiles(what: bytes) -> tuple[float, float]:
        log = replay(Traffic(at_ns=at_ns, requests=[what]), host=HOST, port=gateway.port)
        took_ns = log.ended_ns - log.sent_ns
        return percentile_ms(took_ns, 50) or 0.0, percentile_ms(took_ns, 99) or 0.0

    http_p50_ms, http_p99_ms = percentiles(LIVE_REQUEST)
    p50_ms, p99_ms = percentiles(request)
    note = f"{p50_ms:.2f} ms less {BARE_MS:g} for the call and {http_p50_ms:.2f} for HTTP alone"
    tail = f"{p99_ms:.2f} ms less {BARE_MS:g} for the call and {http_p99_ms:.2f} for HTTP alone"
    return [
        Line(
            where="live",
            what="added to a bare call at low load, p50",
            figure=p50_ms - BARE_MS - http_p50_ms,
            high=0.3,
            unit="ms",
            note=note,
        ),
        Line(
            where="live",
            what="added to a bare call at low load, p99",
            figure=p99_ms - BARE_MS - http_p99_ms,
            high=1.0,
            unit="ms",
            note=tail,
        ),
    ]


def evenly(requests: int, *, every_ms: float) -> Instants:
    """Return instants at one distance."""
    return (np.arange(requests) * every_ms * 1e6).astype(np.int64)


def _client(run: Live) -> str:
    """Say if the client was part of what was measured."""
    if run.result.is_valid:
        return ""
    late = run.result.late_sends / run.result.sent
    return f"invalid: the client sent {late:.1%} late, p99 {run.result.send_delay_p99_ms:.1f} ms"
