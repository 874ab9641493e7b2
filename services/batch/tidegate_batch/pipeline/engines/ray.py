"""Worker processes as Ray actors: on this machine, started and stopped with the job.

Ray only carries messages and says when an actor died. Which chunk goes where, what counts as a
retry and when a job is over is decided by our own queue, so nothing depends on Ray's own
recovery.
"""

import logging
import re
import sys
import threading
from collections import deque
from contextlib import ExitStack, chdir, redirect_stdout
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate.clock.system import SystemClock
from tidegate.errors import PartUnavailableError
from tidegate.units import ns_to_seconds
from tidegate_batch.core.chunks import WorkerId
from tidegate_batch.pipeline.engines.ray_environment import choose_ray_environment
from tidegate_batch.pipeline.engines.ray_folder import (
    last_words_of,
    make_folder,
    remove_folder,
)
from tidegate_batch.pipeline.engines.wire import WorkerSide, decode, encode
from tidegate_batch.pipeline.notices import notices_of
from tidegate_batch.ports import (
    Assignment,
    BuildScorer,
    Leaving,
    WorkerEvent,
    WorkerLost,
    WorkerMessage,
    WorkerSaid,
    WorkerSetup,
)

choose_ray_environment()

import ray  # noqa: E402 - some of its environment it reads when it is imported

_OBJECT_STORE_BYTES: Final = 80 << 20
"""Close to the least that Ray accepts; our messages are a few hundred bytes and never go there."""
_PID: Final = re.compile(r"^\s*pid: (\d+)$", re.MULTILINE)
"""In what Ray says of an actor that died."""


class _Actor(WorkerSide):
    """Looks, before each chunk, whether its machine will be taken away; Ray itself does not say."""

    def set_up(self, setup: bytes) -> bytes:
        told = msgspec.json.decode(setup, type=WorkerSetup)
        self._notices = notices_of(told.notice, SystemClock())
        return super().set_up(setup)

    def score(self, assignment: bytes) -> bytes:
        for notice in self._notices:
            if (preemption := notice.look()) is not None:
                return encode(Leaving(reason=preemption.reason))
        return super().score(assignment)


class RayEngine:
    """Runs each worker as an actor of its own process.

    Args:
        build: Makes a worker, in the actor's process.
        cores: That the workers share, on this machine.
        workers: How many there will be.
        address: Of a cluster that runs already, such as ``10.0.0.5:6379``; without one Ray is
            started on this machine, for this job alone.
    """

    name = "ray"

    def __init__(
        self, build: BuildScorer, *, cores: int, workers: int, address: str | None = None
    ) -> None:
        self._build = build
        self._address = address
        self._cores = cores
        self._cores_per_worker = min(1.0, cores / workers)
        self._setup = b""
        self._folder: Path | None = None
        self._running = ExitStack()
        self._actors: dict[WorkerId, Any] = {}
        self._pending: dict[ray.ObjectRef[bytes], WorkerId] = {}
        self._left: deque[WorkerLost] = deque()

    def start(self, setup: WorkerSetup) -> None:
        """Start Ray on this machine, which takes about three seconds; or join a cluster.

        Raises:
            PartUnavailableError: It does not start, or the cluster does not answer.
        """
        self._setup = encode(setup)
        self._folder = make_folder()
        self._running.callback(remove_folder, self._folder)
        self._running.callback(ray.shutdown)
        self._running.enter_context(redirect_stdout(sys.stderr))  # Ray tells there of dead workers
        try:
            self._init(self._folder)
        except (RuntimeError, ConnectionError, TimeoutError, OSError) as error:
            raise PartUnavailableError(
                f"Ray does not start on this machine: {error}. '--engine local' needs no Ray."
            ) from error

    def _init(self, folder: Path) -> None:
        if self._address is not None:
            ray.init(
                address=self._address,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
            return
        with chdir(folder):  # workers look for modules in the folder where Ray was started
            ray.init(
                address="local",  # whatever cluster RAY_ADDRESS names
                num_cpus=self._cores,
                num_gpus=0,
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=str(folder),
            )

    def add_worker(self, worker: WorkerId) -> None:
        """Ask for an actor; Ray starts a process for it."""
        actor = ray.remote(_Actor).options(num_cpus=self._cores_per_worker, max_restarts=0)
        self._actors[worker] = actor.remote(self._build)
        self._pending[self._actors[worker].set_up.remote(self._setup)] = worker

    def assign(self, worker: WorkerId, assignment: Assignment) -> None:
        """Call an actor."""
        self._pending[self._actors[worker].score.remote(encode(assignment))] = worker

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        """Wait for the first call that returns or cannot return any more."""
        if self._left:
            return self._left.popleft()
        timeout_s = ns_to_seconds(timeout_ns)
        if not self._pending:  # nobody works: nothing can happen before the time is over
            threading.Event().wait(timeout_s)
            return None
        ready, _ = ray.wait(list(self._pending), num_returns=1, timeout=timeout_s)
        if not ready:
            return None
        worker = self._pending.pop(ready[0])
        try:
            return self._said(worker, decode(ray.get(ready[0])))
        except ray.exceptions.RayError as error:
            ray.kill(self._actors.pop(worker))  # one whose call failed may be alive, and is no use
            return WorkerLost(worker=worker, reason=self._reason(error))

    def _said(self, worker: WorkerId, message: WorkerMessage) -> WorkerSaid:
        if isinstance(message, Leaving):  # it has dropped its chunk, and nobody calls it again
            ray.kill(self._actors.pop(worker))
            self._left.append(WorkerLost(worker=worker, reason=message.reason))
        return WorkerSaid(worker=worker, message=message)

    def _reason(self, error: ray.exceptions.RayError) -> str:
        """Say why a worker is lost: what it raised, or what it wrote before it died."""
        if isinstance(error, ray.exceptions.RayTaskError):
            return str(error.cause)
        lines = str(error).strip().splitlines()
        reason = lines[0].rstrip(".") if lines else type(error).__name__
        found = _PID.search(str(error))
        assert self._folder is not None, "no worker is lost before one is started"
        return reason + last_words_of(self._folder, int(found[1])) if found else reason

    def close(self) -> None:
        """Stop Ray and all its processes."""
        self._actors.clear()
        self._pending.clear()
        self._left.clear()
        self._running.close()
