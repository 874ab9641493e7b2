"""A backend on the event loop: batches last as long as a test says, on virtual time or none."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate_realtime.runtime.ports import BatchResult, Call


def echo(inputs: Tensors) -> BatchResult:
    """Answer the rows that came, under the name ``output``."""
    return {"output": next(iter(inputs.values()))}


@dataclass(eq=False)
class BegunBatch:
    """One call of ``begin``, as a test looks at it, and as its caller does."""

    backend: "FakeBackend"
    inputs: Tensors
    rows: int
    done: Callable[[BatchResult], None]
    began_at_s: float
    """When it was begun; when it runs, if it had to wait."""
    finished: bool = False
    terminations: int = 0
    timer: asyncio.TimerHandle | None = None
    """While it runs."""

    def terminate(self) -> None:
        self.terminations += 1
        if self.backend.can_terminate:
            self.backend.finish(self, BackendError("terminated"))


@dataclass
class FakeBackend:
    """Runs ``model`` on each batch, which takes ``took_s``, or ``took_s(rows)``.

    What a replaced executor runs is told of all the same, however late.
    """

    took_s: float | Callable[[int], float] = 0.0
    executors: int = 1
    fixed_rows: int | None = None
    model: Callable[[Tensors], BatchResult] = echo
    begun: list[BegunBatch] = field(default_factory=list)
    closed: bool = False
    can_terminate: bool = True
    replacing_takes_s: float = 0.0
    replacing_fails: int = 0
    """How often, before it works."""
    replaced: list[BegunBatch] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """Rows of each batch, in the order in which they began."""
        return [batch.rows for batch in self.begun]

    def begin(
        self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]
    ) -> BegunBatch:
        batch = BegunBatch(self, inputs, rows, done, asyncio.get_running_loop().time())
        if self.closed:
            batch.finished = True
            done(BackendError(f"closed; takes no batch of {rows} rows"))
        else:
            self.begun.append(batch)
            self._run_next()
        return batch

    def replace(self, call: Call, *, ready: Callable[[BackendError | None], None]) -> None:
        assert isinstance(call, BegunBatch)
        fault = BackendError("no memory") if self.replacing_fails else None
        self.replacing_fails -= fault is not None
        if fault is None:
            self.replaced.append(call)
        asyncio.get_running_loop().call_later(self.replacing_takes_s, ready, fault)

    def close(self) -> None:
        self.closed = True
        for batch in self.begun:
            self._end(batch)

    def finish(self, batch: BegunBatch, result: BatchResult) -> None:
        """End a batch, if it has not ended."""
        if not batch.finished:
            batch.finished = True
            if batch.timer is not None:
                batch.timer.cancel()
            batch.done(result)
            if not self.closed:
                self._run_next()

    def _run_next(self) -> None:
        loop = asyncio.get_running_loop()
        open_batches = [batch for batch in self.begun if not batch.finished]
        running = sum(b.timer is not None and b not in self.replaced for b in open_batches)
        for batch in [b for b in open_batches if b.timer is None][: self.executors - running]:
            batch.began_at_s = loop.time()
            batch.timer = loop.call_later(self.takes_s(batch), self._end, batch)

    def takes_s(self, batch: BegunBatch) -> float:
        """How long this one lasts; a test may know better."""
        return self.took_s(batch.rows) if callable(self.took_s) else self.took_s

    def _end(self, batch: BegunBatch) -> None:
        if not batch.finished:
            self.finish(batch, self._result(batch))

    def _result(self, batch: BegunBatch) -> BatchResult:
        try:
            return self.model(batch.inputs)
        except BackendError as error:
            return error
