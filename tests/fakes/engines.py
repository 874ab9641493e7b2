"""An engine without processes: workers run in the driver's thread, one chunk at a time.

It can be told to lose a worker at the n-th chunk, before or after that is committed, or to raise.
"""

from collections import deque
from collections.abc import Callable, Mapping

from tidegate.inference.runner import DeviceLostError
from tidegate_batch.core.chunks import WorkerId
from tidegate_batch.ports import (
    Assignment,
    BuildScorer,
    ChunkScorer,
    Ready,
    WorkerEvent,
    WorkerLost,
    WorkerSaid,
    WorkerSetup,
)

BEFORE_COMMIT = "before its commit"
AFTER_COMMIT = "after its commit"


class InlineEngine:
    """Scores a chunk when the driver asks for the next event.

    Args:
        build: Makes the scorer, as an engine's worker process would.
        deaths: By the number of the assignment, from 0: when its worker dies, or what the driver
            meets instead of an event.
        pause: Lets the time pass in which nothing happens.
    """

    name = "inline"

    def __init__(
        self,
        build: BuildScorer,
        deaths: Mapping[int, str | BaseException] | None = None,
        *,
        pause: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._build = build
        self._pause = pause
        self._deaths = deaths or {}
        self._setup: WorkerSetup | None = None
        self._scorer: ChunkScorer | None = None
        self._events: deque[WorkerEvent] = deque()
        self._assigned: deque[tuple[WorkerId, Assignment]] = deque()
        self.assigned: list[tuple[WorkerId, str]] = []
        """Every assignment so far: worker and chunk."""
        self.workers: list[WorkerId] = []

    def start(self, setup: WorkerSetup) -> None:
        self._setup = setup
        self._scorer = self._build(setup)

    def add_worker(self, worker: WorkerId) -> None:
        assert worker not in self.workers, "a worker's name is never used again"
        self.workers.append(worker)
        self._events.append(WorkerSaid(worker=worker, message=Ready(pid=worker)))

    def assign(self, worker: WorkerId, assignment: Assignment) -> None:
        assert worker not in [busy for busy, _ in self._assigned], "one chunk at a time"
        self._assigned.append((worker, assignment))

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        if not self._events and self._assigned:
            self._events.append(self._work())
        if not self._events:
            self._pause(timeout_ns)
        return self._events.popleft() if self._events else None

    def _work(self) -> WorkerEvent:
        worker, assignment = self._assigned.popleft()
        death = self._deaths.get(len(self.assigned))
        self.assigned.append((worker, assignment.chunk))
        if isinstance(death, BaseException):
            raise death
        if death == BEFORE_COMMIT:
            return WorkerLost(worker=worker, reason="killed on purpose")
        assert self._scorer is not None
        try:
            result = self._scorer.score(assignment)
        except DeviceLostError as error:  # its process would end; the next worker begins anew
            assert self._setup is not None
            self._scorer = self._build(self._setup)
            return WorkerLost(worker=worker, reason=str(error))
        if death == AFTER_COMMIT:
            return WorkerLost(worker=worker, reason="killed on purpose")
        return WorkerSaid(worker=worker, message=result)

    def close(self) -> None:
        if self._scorer:
            self._scorer.close()
        self._assigned.clear()
        self._events.clear()
