"""The whole proof, part by part; every line is told as soon as it is known."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from tidegate.profiles import load_profile
from tidegate.profiles.loading import dump_profile
from tidegate.units import ns_to_ms
from tidegate_loadtest.proof import live, models, simulated, stress
from tidegate_loadtest.proof.costing import cost_lines
from tidegate_loadtest.proof.gateway import Gateway, running_gateway
from tidegate_loadtest.proof.picture import Sweep
from tidegate_loadtest.proof.setting import Setting, published_resnet50, published_v100
from tidegate_loadtest.proof.targets import Line
from tidegate_loadtest.replay.traffic import Traffic

Part = Literal["simulated", "emulated", "slow", "wide"]
PARTS: Final[tuple[Part, ...]] = ("simulated", "emulated", "slow", "wide")
WIDE_SLO_MS: Final = 50.0
WIDE_ROWS: Final = 8
"""Of each request to the wide model: it carries more single rows than a client here can send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long each part takes."""

    requests: int
    """Simulated at each load."""
    load_s: float
    """Live at each load."""
    leaving_s: float
    """While callers leave."""


SHORT: Final = Lengths(requests=100_000, load_s=12.0, leaving_s=12.0)
LONG: Final = Lengths(requests=1_000_000, load_s=60.0, leaving_s=60.0)


class Bench:
    """What was found so far."""

    def __init__(self, folder: Path, *, lengths: Lengths, say: Callable[[str], None]) -> None:
        """Begin with nothing.

        Args:
            folder: For a store and logs; it is not cleaned up here.
            lengths: Of the parts.
            say: Told each line.
        """
        self.lines: list[Line] = []
        self.sweeps: list[Sweep] = []
        self._folder = folder
        self._lengths = lengths
        self._say = say

    def run(self, parts: Sequence[Part]) -> None:
        """Run the parts that are asked for.

        Raises:
            GatewayStartError: A gateway did not start.
        """
        load, cores = os.getloadavg()[0], os.cpu_count()
        self._say(f"{cores} cores; load average before the start {load:.1f}: others' work counts")
        resnet = published_resnet50()
        self._introduce(resnet)
        if "simulated" in parts:
            self._simulate(resnet)
        store = models.publish_models(self._folder)
        if "emulated" in parts:
            self._emulate(store, resnet)
        if "slow" in parts:
            self._slow_down(store, resnet)
        if "wide" in parts:
            self._serve_wide(store)

    def answer(self) -> dict[str, object]:
        """Return everything, to be written as JSON."""
        lines = [{**msgspec.to_builtins(line), "verdict": line.verdict} for line in self.lines]
        loads = {
            setting.name: {
                f"{load:g}": {"simulated": same[load].result, "live": run.result}
                for load, run in runs.items()
            }
            for setting, same, runs in self.sweeps
        }
        machine = {"cores": os.cpu_count(), "processor": platform.machine()}
        return {"machine": machine, "lines": lines, "loads": loads}

    def _simulate(self, setting: Setting) -> None:
        runs = simulated.simulate_loads(setting, requests=self._lengths.requests)
        self._tell(simulated.load_lines(runs))
        self._tell(simulated.slowdown_lines(setting, 0.9))
        self._tell(cost_lines())
        self._tell([simulated.speed_line(each) for each in (setting, published_v100())])

    def _emulate(self, store: Path, setting: Setting) -> None:
        small = models.small_requests()
        leaving_s = self._lengths.leaving_s
        with self._emulated(store, setting, "resnet50") as gateway:
            self._sweep(gateway, setting, small)
            self._tell(stress.cancel_lines(gateway, setting, small, load=1.5, leaving_s=leaving_s))
        backend = f"emulated:linear:0:{live.BARE_MS:g}"
        with running_gateway(store, "--model", models.SMALL, "--backend", backend) as gateway:
            self._tell(live.added_latency_lines(gateway, small[0]))

    def _slow_down(self, store: Path, setting: Setting) -> None:
        with self._emulated(store, setting.slowed(), "slowed") as gateway:
            small = models.small_requests()
            self._tell(stress.slowdown_lines(gateway, setting, small, load=0.9))

    def _serve_wide(self, store: Path) -> None:
        setting = Setting(
            name="wide MLP",
            profile=load_profile(str(self._measured(store))),
            slo_ms=WIDE_SLO_MS,
            rows_per_request=WIDE_ROWS,
        )
        wide = models.wide_requests(rows=WIDE_ROWS)
        slo = ("--slo-ms", f"{setting.slo_ms:g}")
        with running_gateway(store, "--model", models.WIDE, *slo) as gateway:
            setting = self._beside_others(gateway, setting, wide)
            self._introduce(setting)
            self._sweep(gateway, setting, wide)
            poison = models.poison_requests(stress.FAILURES)
            self._tell(stress.failure_lines(gateway, setting, wide, poison, load=0.7))

    def _beside_others(
        self, gateway: Gateway, setting: Setting, requests: Sequence[bytes]
    ) -> Setting:
        """Return the setting with the calls as slow as they are beside the client and the gateway.

        All of them share the cores of one machine: what the model carries alone nobody can be
        served. So it is sent that, and its calls are compared with those that were measured alone.
        """
        traffic = Traffic(at_ns=setting.arrivals(1, self._lengths.load_s / 2), requests=requests)
        run = live.send(gateway, setting, traffic)
        alone_ms = ns_to_ms(setting.profile.mean_ns(round(run.mean_batch_rows)))
        factor = max(1.0, run.mean_call_ms / alone_ms)
        self._say(
            f"{setting.name}: calls of {run.mean_batch_rows:.0f} rows take {run.mean_call_ms:.1f} "
            f"ms beside client and gateway, {alone_ms:.1f} ms alone; loads are of that, as is what "
            "is simulated"
        )
        return setting.slower(factor)

    def _sweep(self, gateway: Gateway, setting: Setting, requests: Sequence[bytes]) -> None:
        """Send every load, and simulate the same arrivals."""
        runs = live.send_loads(gateway, setting, requests, duration_s=self._lengths.load_s)
        self._tell(live.load_lines(setting, runs))
        same = {load: simulated.simulate(setting, run.log.at_ns) for load, run in runs.items()}
        self._tell(live.agreement_lines(setting, runs, same))
        self.sweeps.append((setting, same, runs))

    def _emulated(
        self, store: Path, setting: Setting, name: str
    ) -> AbstractContextManager[Gateway]:
        file = self._folder / f"{name}.json"
        file.write_bytes(dump_profile(setting.profile))
        promise = ("--model", models.SMALL, "--slo-ms", f"{setting.slo_ms:g}")
        return running_gateway(store, *promise, "--backend", f"emulated:{file}")

    def _measured(self, store: Path) -> Path:
        file = self._folder / "wide.json"
        command = [sys.executable, "-m", "tidegate", "profile", models.WIDE, "--store", str(store)]
        command += ["--budget-s", "5", "--out", str(file)]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)
        return file

    def _introduce(self, setting: Setting) -> None:
        rows = setting.rows_per_request
        of_rows = "" if rows == 1 else f" of {rows} rows"
        self._say(
            f"{setting.name} within {setting.slo_ms:g} ms; load 1 is {setting.capacity_rps:.0f} "
            f"requests/s{of_rows}: b/m(b) with batches of {setting.cap.calm_rows} rows, b_slo"
        )

    def _tell(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.lines.append(line)
            self._say(line.text())
