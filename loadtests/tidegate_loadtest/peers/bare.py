"""The model without any server: what one core can do at most, and how long one call takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import onnxruntime as ort

from tidegate.clock import Clock
from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.peers.work import Work

SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_WARM_UP: Final = 10
_CALLS: Final = 20
"""At least, of each size."""


class Bare(msgspec.Struct, frozen=True, kw_only=True):
    """One size of batch."""

    rows: int
    p50_ms: float
    p99_ms: float
    rows_per_s: float


def time_session(file: Path, work: Work, clock: Clock, *, seconds: float) -> Sequence[Bare]:
    """Call a session of one thread with batches of each size, from this thread.

    Args:
        file: The model.
        work: What it reads.
        clock: Read around each call.
        seconds: For each size.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    found = []
    for rows in SIZES:
        batch = {"input": np.repeat(work.row, rows, axis=0)}
        for _ in range(_WARM_UP):
            session.run(None, batch)
        took_ns: list[int] = []
        while len(took_ns) < _CALLS or sum(took_ns) < seconds * NS_PER_SECOND:
            began_at_ns = clock.now_ns()
            session.run(None, batch)
            took_ns.append(clock.now_ns() - began_at_ns)
        p50_ms, p99_ms = np.percentile(took_ns, [50, 99]) / NS_PER_MS
        found.append(
            Bare(
                rows=rows,
                p50_ms=float(p50_ms),
                p99_ms=float(p99_ms),
                rows_per_s=rows * len(took_ns) / sum(took_ns) * NS_PER_SECOND,
            )
        )
    return found


def rows_per_s_at(bare: Sequence[Bare], rows: float) -> float:
    """Return what the session does at a mean size of batch, in a straight line between sizes."""
    sizes = [each.rows for each in bare]
    return float(np.interp(rows, sizes, [each.rows_per_s for each in bare]))
