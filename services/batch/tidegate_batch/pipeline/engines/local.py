"""Worker processes on this machine, each behind a pair of pipes.

A worker leaves when its pipe closes, so that none outlives its driver, however that ended.
"""

import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from tidegate.units import ns_to_seconds
from tidegate_batch.core.chunks import WorkerId
from tidegate_batch.pipeline.engines.last_words import last_words
from tidegate_batch.pipeline.engines.wire import decode, encode
from tidegate_batch.ports import Assignment, WorkerEvent, WorkerLost, WorkerSaid, WorkerSetup


class LocalEngine:
    """Starts workers with a command that speaks ``wire`` on its standard streams."""

    name = "local"

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._setup = b""
        self._workers: dict[WorkerId, _Process] = {}
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()

    def start(self, setup: WorkerSetup) -> None:
        """Remember what every worker is told first."""
        self._setup = encode(setup)

    def add_worker(self, worker: WorkerId) -> None:
        """Start a process."""
        self._workers[worker] = _Process(worker, self._command, self._events)
        self._workers[worker].send(self._setup)

    def assign(self, worker: WorkerId, assignment: Assignment) -> None:
        """Write to a worker's pipe; one that is dead is reported by its own thread."""
        self._workers[worker].send(encode(assignment))

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        """Wait for what any worker says or suffers."""
        try:
            return self._events.get(timeout=ns_to_seconds(timeout_ns))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Kill what is still there; a chunk cut short leaves nothing that a reader could see."""
        for process in self._workers.values():
            process.kill()
        self._workers.clear()


class _Process:
    """One worker, and the thread that listens to it."""

    def __init__(
        self,
        worker: WorkerId,
        command: Sequence[str],
        events: "queue.SimpleQueue[WorkerEvent]",
    ) -> None:
        self._worker = worker
        self._events = events
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the listener closes it
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            process_group=0,  # Ctrl-C in a terminal is for the driver alone
        )
        self._listener = threading.Thread(target=self._listen, name=f"batch worker {worker}")
        self._listener.start()

    def send(self, message: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(message + b"\n")
            stdin.flush()
        except (BrokenPipeError, ValueError):  # dead, or killed by ``close``: the listener tells
            return

    def kill(self) -> None:
        self._process.kill()
        self._listener.join()

    def _listen(self) -> None:
        stdout, stdin = self._process.stdout, self._process.stdin
        assert stdout is not None
        assert stdin is not None
        with self._stderr, stdout:
            for line in stdout:
                self._events.put(WorkerSaid(worker=self._worker, message=decode(line)))
            status = self._process.wait()
            with suppress(BrokenPipeError):  # a message that it never read
                stdin.close()
            reason = f"exit status {status}{last_words(self._stderr)}"
            self._events.put(WorkerLost(worker=self._worker, reason=reason))
