"""A gateway in a process of its own: started, asked for its metrics, stopped."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from tidegate.clock.system import SystemClock

HOST: Final = "127.0.0.1"
STOP_LIMIT_S: Final = 30
ASK_LIMIT_S: Final = 10
_LAST_LINE: Final = "Ctrl-C"
"""How the announcement ends; before it, callers are not answered."""
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)


class GatewayStartError(RuntimeError):
    """The gateway ended before it was ready; the message ends with what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A ``tidegate serve`` that answers."""

    port: int
    admin_port: int
    spawned_at_ns: int
    """On the monotonic clock, which all processes of a machine share."""
    ready_at_ns: int

    def metrics(self) -> "Metrics":
        """Scrape.

        Raises:
            OSError: It does not answer.
        """
        return scrape(self.admin_port)


class Metrics:
    """One scrape."""

    def __init__(self, samples: Mapping[str, float]) -> None:
        self._samples = samples
        """By name and labels, as exposed."""

    def sum(self, name: str, *labels: str) -> float:
        """Sum the samples of a metric that have all of these labels, written ``name="value"``."""
        return sum(
            value
            for sample, value in self._samples.items()
            if sample.partition("{")[0] == name and all(label in sample for label in labels)
        )


def scrape(admin_port: int) -> Metrics:
    """Read the metrics of a gateway.

    Raises:
        OSError: It does not answer.
    """
    found = _SAMPLE.findall(fetch(admin_port, "/metrics"))
    return Metrics({f"{name}{labels}": float(value) for name, labels, value in found})


def fetch(port: int, path: str) -> str:
    """GET from this machine.

    Raises:
        OSError: Nobody answers.
    """
    connection = HTTPConnection(HOST, port, timeout=ASK_LIMIT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@contextmanager
def running_gateway(store: Path, *arguments: str) -> Iterator[Gateway]:
    """Start ``tidegate serve`` on free ports, wait until it is ready, and stop it in the end.

    Raises:
        GatewayStartError: It ended instead, with what it wrote.
    """
    port, admin_port = free_ports(2)
    command = [sys.executable, "-m", "tidegate", "serve", "--store", str(store)]
    command += ["--host", HOST, "--port", str(port), "--admin-port", str(admin_port)]
    command += ["--grpc-port", "0", *arguments]
    clock, log = SystemClock(), store.parent / f"gateway-{port}.log"
    with (
        log.open("w+") as stderr,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ,
            cwd=store.parent,
        ) as process,
    ):
        spawned_at_ns = clock.now_ns()
        try:
            assert process.stdout is not None
            if not any(line.startswith(_LAST_LINE) for line in process.stdout):
                raise GatewayStartError(f"{' '.join(command)} is not ready:\n{log.read_text()}")
            yield Gateway(
                port=port,
                admin_port=admin_port,
                spawned_at_ns=spawned_at_ns,
                ready_at_ns=clock.now_ns(),
            )
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [found.getsockname()[1] for found in sockets]
    finally:
        for found in sockets:
            found.close()
