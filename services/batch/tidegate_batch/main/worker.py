"""A worker process of the local engine: ``python -m tidegate_batch.main.worker``.

Messages come and go on the standard streams, a line each. Whatever else writes to stdout (a
library that prints) goes to stderr, so that it can never look like a message.

SIGTERM is a notice, like that of a cloud: a thread of its own waits for it, since the main thread
may be inside of a model's call for long.
"""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Final

import msgspec

from tidegate.clock.system import SystemClock, sleep_ns
from tidegate.errors import PartUnavailableError
from tidegate.inference.runner import DeviceLostError
from tidegate.units import NS_PER_SECOND
from tidegate_batch.main.wiring import build_scorer
from tidegate_batch.pipeline.departing import Departure, watch
from tidegate_batch.pipeline.engines.wire import WorkerSide
from tidegate_batch.pipeline.notices import notices_of
from tidegate_batch.ports import Preemption, WorkerSetup

_LEFT_AFTER_SIGTERM_NS: Final = 25 * NS_PER_SECOND
"""Kubernetes and most others send SIGKILL 30 s after it."""
_LOOK_NS: Final = 2 * NS_PER_SECOND
"""Google says it 30 s ahead; Amazon asks to look every 5 s."""


def main() -> None:
    """Serve the driver at the other end of the pipes until it is gone."""
    told = _hear_sigterm()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    _start(_listen, sys.stdin.buffer, lines)
    departure = Departure(
        SystemClock(), say=lambda message: _answer(answers, message), end=lambda: os._exit(0)
    )
    _start(_wait_for_sigterm, told, departure)
    side = WorkerSide(build_scorer)
    try:
        setup = lines.get()
        _start(_watch, departure, setup)
        departure.answer(side.set_up(setup))
        while True:
            departure.score(partial(side.score, lines.get()))
    except (PartUnavailableError, DeviceLostError) as error:  # another process may have more luck
        sys.exit(str(error))


def _start(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _listen(stdin: BinaryIO, lines: "queue.SimpleQueue[bytes]") -> None:
    """Pass lines on; leave at once, even in mid-chunk, when the driver is gone."""
    for line in stdin:
        lines.put(line)
    os._exit(0)


def _hear_sigterm() -> int:
    """Return a pipe that gets a byte with each SIGTERM, whatever the main thread does.

    (Blocking the signal instead would miss the threads that libraries have started on import.)
    """
    told, teller = os.pipe()
    os.set_blocking(teller, False)
    signal.set_wakeup_fd(teller)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return told


def _wait_for_sigterm(told: int, departure: Departure) -> None:
    os.read(told, 1)
    departure.on_notice(Preemption(left_ns=_LEFT_AFTER_SIGTERM_NS, reason="SIGTERM"))


def _watch(departure: Departure, setup: bytes) -> None:
    told = msgspec.json.decode(setup, type=WorkerSetup).notice
    if notices := notices_of(told, SystemClock()):
        watch(notices, departure, pause=sleep_ns, every_ns=_LOOK_NS)


def _answer(answers: BinaryIO, message: bytes) -> None:
    answers.write(message + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
