"""Who scores the rows, each as a command that ends when all answers are written."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

BARE_ROWS: Final = 128
"""Of one call of the bare session, as the target is stated."""
SAME_ROWS: Final = 4096
"""Of one call of an offline job's session, for rows as small as these."""


class Contender(StrEnum):
    """One way to score files."""

    TIDEGATE_RAY = "tidegate-ray"
    TIDEGATE_LOCAL = "tidegate-local"
    TIDEGATE_S3 = "tidegate-local-s3"
    """Rows, answers and the job's record on an S3 server of this machine."""
    BARE = "bare"
    """Processes of onnxruntime and pyarrow alone, with batches as large as Tidegate's."""
    BARE_128 = "bare-128"
    RAY_DATA = "ray-data"
    SCALAR = "scalar-loop"
    """One process, one row a call."""


OURS: Final = (Contender.TIDEGATE_RAY, Contender.TIDEGATE_LOCAL, Contender.TIDEGATE_S3)
_PROGRAMS: Final = {
    Contender.BARE: ("batch_bare.py", SAME_ROWS),
    Contender.BARE_128: ("batch_bare.py", BARE_ROWS),
    Contender.RAY_DATA: ("batch_ray_data.py", SAME_ROWS),
    Contender.SCALAR: ("batch_bare.py", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one run scores, and with what."""

    model: Path
    """The ONNX file; of ours only its name counts, under which it is published."""
    rows: str
    """The folder or prefix of the input."""
    output: str
    """Where nothing is yet."""
    store: str
    """Of Tidegate's models and jobs."""
    token: str
    """Names the job."""
    cores: int


def command(contender: Contender, asked: Asked, peers: Path) -> list[str]:
    """Return the command line of one run.

    Args:
        contender: Who runs.
        asked: What it scores.
        peers: The folder of the other programs.
    """
    if contender in OURS:
        return _submission(contender, asked)
    program, batch_rows = _PROGRAMS[contender]
    processes = 1 if contender is Contender.SCALAR else asked.cores
    return [
        *(sys.executable, str(peers / program), "--model", str(asked.model)),
        *("--input", asked.rows, "--output", asked.output),
        *("--batch-rows", str(batch_rows), "--processes", str(processes)),
    ]


def tidegate() -> str:
    """Return the command of this environment."""
    return str(Path(sys.executable).with_name("tidegate"))


def _submission(contender: Contender, asked: Asked) -> list[str]:
    engine = "ray" if contender is Contender.TIDEGATE_RAY else "local"
    return [
        *(tidegate(), "batch", "submit", "--model", f"{asked.model.stem}@stable"),
        *("--input", asked.rows, "--output", asked.output, "--key", "id", "--keep", "id"),
        *("--store", asked.store, "--client-token", asked.token, "--engine", engine),
        *("--workers", str(asked.cores), "--wait", "--json"),
    ]
