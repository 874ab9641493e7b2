"""Runs batches in this process: onnxruntime on a thread of its own."""

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol

from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors, padded
from tidegate.tensors.signature import VARIABLE, Signature
from tidegate_realtime.runtime.ports import BatchResult


class RunnableModel(Protocol):
    """What is needed of ``tidegate.inference.model.Model``."""

    @property
    def signature(self) -> Signature:
        """The tensors that the model reads and writes."""
        ...

    def run(self, inputs: Tensors) -> Mapping[str, Array]:
        """Score one batch; raises ``BackendError``."""
        ...


class _Call(NamedTuple):
    inputs: Tensors
    rows: int
    done: Callable[[BatchResult], None]


class OnnxBackend:
    """One model on one thread, which runs one batch after the other.

    The thread is no daemon: the interpreter would end under a running call, which aborts the
    process. So it must be closed, or the process does not end. A thread and a queue cost a third
    of what an executor's hand-off does.
    """

    executors: Final = 1

    def __init__(self, model: RunnableModel, *, name: str = "model") -> None:
        """Start the thread.

        Args:
            model: Loaded; from now on only this backend runs it.
            name: What the thread is called in stack dumps, such as ``risk@7``.
        """
        self._model = model
        self.fixed_rows = fixed_rows(model.signature)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=f"onnx {name}", daemon=False)
        self._thread.start()

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> None:
        """Hand the batch to the thread; ``done`` is called there."""
        if self._closed:
            done(BackendError(f"{self._thread.name} is closed; it takes no batch of {rows} rows"))
        else:
            self._calls.put(_Call(inputs, rows, done))

    def close(self) -> None:
        """End the thread after the batches that were begun; waits for it."""
        self._closed = True
        self._calls.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while call := self._calls.get():
            call.done(self._score(call.inputs, call.rows))
            del call  # or its arrays would live until the next batch comes

    def _score(self, inputs: Tensors, rows: int) -> BatchResult:
        try:
            if self.fixed_rows in {None, rows}:
                return self._model.run(inputs)
            outputs = self._model.run(padded(inputs, by_rows=self.fixed_rows - rows))
        except BackendError as error:
            return error
        except Exception as error:  # whatever it is, it ends this batch and not the thread
            return BackendError(f"the model raised {type(error).__name__}: {error}")
        return {name: array[:rows] for name, array in outputs.items()}


def fixed_rows(signature: Signature) -> int | None:
    """Return the number of rows that every call must have; ``None`` where any will do."""
    leading = {spec.shape[0] for spec in signature.inputs} - {VARIABLE}
    return min(leading, default=None)
