"""A backend on the event loop: batches last as long as a test says, on virtual time or none."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate_realtime.runtime.ports import BatchResult


def echo(inputs: Tensors) -> BatchResult:
    """Answer the rows that came, under the name ``output``."""
    return {"output": next(iter(inputs.values()))}


@dataclass(eq=False)
class BegunBatch:
    """One call of ``begin``, as a test looks at it."""

    inputs: Tensors
    rows: int
    done: Callable[[BatchResult], None]
    began_at_s: float
    finished: bool = False


@dataclass
class FakeBackend:
    """Runs ``model`` on each batch, which takes ``took_s``, or ``took_s(rows)``."""

    took_s: float | Callable[[int], float] = 0.0
    executors: int = 1
    fixed_rows: int | None = None
    model: Callable[[Tensors], BatchResult] = echo
    begun: list[BegunBatch] = field(default_factory=list)
    closed: bool = False
    _free_at_s: list[float] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """Rows of each batch, in the order in which they began."""
        return [batch.rows for batch in self.begun]

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> None:
        if self.closed:
            done(BackendError(f"closed; takes no batch of {rows} rows"))
            return
        loop = asyncio.get_running_loop()
        busy_until_s = sorted(at_s for at_s in self._free_at_s if at_s > loop.time())
        idle = len(busy_until_s) < self.executors
        start_at_s = loop.time() if idle else busy_until_s[-self.executors]
        end_at_s = start_at_s + (self.took_s(rows) if callable(self.took_s) else self.took_s)
        self._free_at_s = [*busy_until_s, end_at_s]
        batch = BegunBatch(inputs, rows, done, start_at_s)
        self.begun.append(batch)
        loop.call_at(end_at_s, self._finish, batch)

    def close(self) -> None:
        self.closed = True
        for batch in self.begun:
            self._finish(batch)

    def _finish(self, batch: BegunBatch) -> None:
        if not batch.finished:
            batch.finished = True
            batch.done(self._result(batch))

    def _result(self, batch: BegunBatch) -> BatchResult:
        try:
            return self.model(batch.inputs)
        except BackendError as error:
            return error
