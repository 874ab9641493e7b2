"""A worker process of the local engine: ``python -m tidegate_batch.main.worker``.

Messages come and go on the standard streams, a line each. Whatever else writes to stdout (a
library that prints) goes to stderr, so that it can never look like a message.
"""

import os
import queue
import sys
import threading
from typing import BinaryIO

from tidegate.errors import PartUnavailableError
from tidegate.inference.runner import DeviceLostError
from tidegate_batch.main.wiring import build_scorer
from tidegate_batch.pipeline.engines.wire import WorkerSide


def main() -> None:
    """Serve the driver at the other end of the pipes until it is gone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    listener = threading.Thread(
        target=_listen, args=(sys.stdin.buffer, lines), name="driver", daemon=True
    )
    listener.start()
    side = WorkerSide(build_scorer)
    try:
        _answer(answers, side.set_up(lines.get()))
        while True:
            _answer(answers, side.score(lines.get()))
    except (PartUnavailableError, DeviceLostError) as error:  # another process may have more luck
        sys.exit(str(error))


def _listen(stdin: BinaryIO, lines: "queue.SimpleQueue[bytes]") -> None:
    """Pass lines on; leave at once, even in mid-chunk, when the driver is gone."""
    for line in stdin:
        lines.put(line)
    os._exit(0)


def _answer(answers: BinaryIO, message: bytes) -> None:
    answers.write(message + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
