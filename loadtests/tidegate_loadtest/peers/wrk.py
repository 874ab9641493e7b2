"""One run of ``wrk``, a load generator that nobody here wrote: a closed loop from one thread."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from tidegate_loadtest.peers.servers import Running
from tidegate_loadtest.peers.work import Form

_MISSING: Final = "wrk is not here; on Debian: apt install wrk"
_SLOWEST_ANSWER_S: Final = 20
_GRACE_S: Final = 60
_US_PER_S: Final = 1e6
_US_PER_MS: Final = 1e3


class WrkError(RuntimeError):
    """wrk is absent or failed; the message says what to do, or what it wrote."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One run at one number of connections."""

    requests: int
    took_us: int
    p50_us: float
    p99_us: float
    refused: int
    """Replies with another status than 2xx or 3xx."""
    broken: int
    """Connections that failed, or took too long."""

    @property
    def answered_rps(self) -> float:
        """Answers in a second; refusals are none."""
        return (self.requests - self.refused) / self.took_us * _US_PER_S

    @property
    def p50_ms(self) -> float:
        """Median of all replies."""
        return self.p50_us / _US_PER_MS

    @property
    def p99_ms(self) -> float:
        """99th percentile of all replies."""
        return self.p99_us / _US_PER_MS

    @property
    def errors(self) -> int:
        """Whatever was no answer."""
        return self.refused + self.broken


def find_wrk() -> str:
    """Return the program.

    Raises:
        WrkError: It is not installed.
    """
    program = shutil.which("wrk")
    if program is None:
        raise WrkError(_MISSING)
    return program


def drive(
    found: Running, form: Form, *, connections: int, seconds: int, script: Path, folder: Path
) -> Measured:
    """Send one request again and again over each connection, and measure.

    Raises:
        WrkError: wrk ended otherwise than with its measurements.
    """
    request = found.request(form)
    body = folder / f"{form}.body"
    body.write_bytes(request.body)
    headers = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
    command = [
        *(find_wrk(), "--threads", "1", "--connections", str(connections), "--latency"),
        *("--duration", f"{seconds}s", "--timeout", f"{_SLOWEST_ANSWER_S}s"),
        *("--script", str(script), found.url),
    ]
    ended = subprocess.run(
        command,
        env=os.environ | {"BODY": str(body), "HEADERS": headers},
        capture_output=True,
        text=True,
        timeout=seconds + _GRACE_S,
        check=False,
    )
    return read(ended.stdout, ended.stderr)


def read(output: str, errors: str = "") -> Measured:
    """Read the last line that ``post.lua`` has printed.

    Raises:
        WrkError: There is none.
    """
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise WrkError(f"wrk measured nothing. It said: {output[-1_000:]}{errors[-1_000:]}")
    return msgspec.json.decode(lines[-1], type=Measured)
