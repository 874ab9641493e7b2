"""One run of ``wrk``, a load generator that nobody here wrote: a closed loop from one thread."""

import os
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from tidegate_loadtest.peers.load import LoadError, Measured, find
from tidegate_loadtest.peers.servers import Running
from tidegate_loadtest.peers.work import Form

_SLOWEST_ANSWER_S: Final = 20
_GRACE_S: Final = 60


def drive(found: Running, form: Form, *, connections: int, seconds: int, script: Path) -> Measured:
    """Send one request again and again over each connection, and measure.

    Raises:
        LoadError: wrk ended otherwise than with its measurements.
    """
    request = found.request(form)
    body = found.folder / f"{form}.body"
    body.write_bytes(request.body)
    headers = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
    command = [
        *(find("wrk"), "--threads", "1", "--connections", str(connections), "--latency"),
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
        LoadError: There is none.
    """
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise LoadError(f"wrk measured nothing. It said: {output[-1_000:]}{errors[-1_000:]}")
    return msgspec.json.decode(lines[-1], type=Measured)
