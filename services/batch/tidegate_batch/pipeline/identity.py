"""Which process drives a job, and whether it is surely gone."""

import os
import socket
from pathlib import Path
from typing import Final

from tidegate_batch.core.records import Driver

_PROC: Final = Path("/proc")
_UNKNOWN: Final = "unknown"


def this_process() -> Driver:
    """Return the present process, in words that tell it from any other, for ever."""
    return Driver(host=socket.gethostname(), pid=os.getpid(), process=_identity(os.getpid()))


def is_surely_gone(driver: Driver) -> bool:
    """Say whether a driver is known to be dead.

    Known only on its own machine: in the same boot and the same space of process ids, that id is
    free or was given to a process that started at another time. Everywhere else its lease tells.
    """
    here, _, started = driver.process.rpartition(":")
    return here == _space() and _UNKNOWN not in driver.process and _start_of(driver.pid) != started


def _identity(pid: int) -> str:
    return f"{_space()}:{_start_of(pid) or _UNKNOWN}"


def _space() -> str:
    """Name this boot of this machine, and the space that its process ids belong to."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:  # no Linux: nothing is known, and leases decide
        return _UNKNOWN


def _start_of(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; empty if it is dead."""
    try:
        fields = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    is_dead = fields[0] in {"Z", "X"}
    return "" if is_dead else fields[19]  # 22nd of all, counted from 1; two stand before the ")"
