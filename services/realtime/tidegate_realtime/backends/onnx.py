"""Runs batches in this process: onnxruntime on a thread of its own."""

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Final, Protocol

from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors, padded
from tidegate.inference.runner import RunControl
from tidegate.tensors.signature import VARIABLE, Signature
from tidegate_realtime.runtime.ports import BatchResult, Call


class RunnableModel(Protocol):
    """What is needed of ``tidegate.inference.model.Model``."""

    @property
    def signature(self) -> Signature:
        """The tensors that the model reads and writes."""
        ...

    def run(self, inputs: Tensors, control: RunControl | None = None) -> Mapping[str, Array]:
        """Score one batch; raises ``BackendError``."""
        ...

    def reopened(self) -> "RunnableModel":
        """Load the model once more, so that both can run; raises ``TidegateError``."""
        ...


class _Call:
    """One batch on its way through the thread."""

    __slots__ = ("control", "done", "inputs", "rows")

    def __init__(self, inputs: Tensors, rows: int, done: Callable[[BatchResult], None]) -> None:
        self.inputs = inputs
        self.rows = rows
        self.done = done
        self.control = RunControl()

    def terminate(self) -> None:
        """Let onnxruntime stop before the next node of the model."""
        self.control.terminate()


class OnnxBackend:
    """One model on one thread, which runs one batch after the other.

    Close it: the interpreter may end under a running call, which aborts the process. The thread is
    a daemon for the one case in which nobody can wait for it, a call that hangs: another thread
    with another session takes its place then, and this one ends when the call does, if ever. A
    thread and a queue cost a third of what an executor's hand-off does.
    """

    executors: Final = 1

    def __init__(self, model: RunnableModel, *, name: str = "model") -> None:
        """Start the thread.

        Args:
            model: Loaded; from now on only this backend runs it.
            name: What the thread is called in stack dumps, such as ``risk@7``.
        """
        self._reopen: Callable[[], RunnableModel] = model.reopened
        self._name = f"onnx {name}"
        self.fixed_rows = fixed_rows(model.signature)
        self._lock = threading.Lock()
        """Over which executor there is, and whether there will be another: they change together."""
        self._closed = False
        self._executor = _Executor(lambda: model, self._name)

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> Call:
        """Hand the batch to the thread; ``done`` is called there."""
        call = _Call(inputs, rows, done)
        with self._lock:
            executor = None if self._closed else self._executor
            if executor is not None:
                executor.calls.put(call)
        if executor is None:
            done(BackendError(f"{self._name} is closed; it takes no batch of {rows} rows"))
        return call

    def replace(self, call: Call, *, ready: Callable[[BackendError | None], None]) -> None:
        """Load the model into another session, on another thread; ``ready`` is called there."""
        call.terminate()  # which has no effect inside of one node, where it probably hangs
        with self._lock:
            self._executor.give_up()
            is_closed = self._closed
            if not is_closed:
                self._executor = _Executor(self._reopen, self._name, ready)
        if is_closed:
            ready(BackendError(f"{self._name} is closed"))

    def close(self) -> None:
        """End the thread after the batches that were begun; waits for it until it is given up."""
        with self._lock:
            self._closed = True
            executor = self._executor
        executor.calls.put(None)
        executor.wait()
        self._reopen = _closed  # the model is gone, however long somebody holds on to this


def _closed() -> RunnableModel:
    raise BackendError("the backend is closed")


class _Executor:
    """A thread with a session of its own, until ``None`` comes instead of a call."""

    def __init__(
        self,
        open_model: Callable[[], RunnableModel],
        name: str,
        ready: Callable[[BackendError | None], None] | None = None,
    ) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_given_up = False
        self._over = threading.Event()
        asked = (open_model, ready)  # the thread's alone, so that the model ends with it
        self.thread = threading.Thread(target=self._serve, args=asked, name=name, daemon=True)
        self.thread.start()

    def give_up(self) -> None:
        """Let the thread end by itself, and nobody wait for it any more."""
        self.calls.put(None)
        self._is_given_up = True
        self._over.set()

    def wait(self) -> None:
        """Block until the thread has ended, or was given up."""
        self._over.wait()
        if not self._is_given_up:
            self.thread.join()

    def _serve(
        self,
        open_model: Callable[[], RunnableModel],
        ready: Callable[[BackendError | None], None] | None,
    ) -> None:
        opened = _opened(open_model)
        if ready:
            ready(opened if isinstance(opened, BackendError) else None)
        try:
            while call := self.calls.get():
                call.done(opened if isinstance(opened, BackendError) else _score(opened, call))
                del call  # or its arrays would live until the next batch comes
        finally:
            self._over.set()


def _opened(open_model: Callable[[], RunnableModel]) -> RunnableModel | BackendError:
    try:
        return open_model()
    except Exception as error:  # whatever it is, somebody waits to be told
        return BackendError(f"the model cannot be loaded again: {error}")


def _score(model: RunnableModel, call: _Call) -> BatchResult:
    try:
        fixed = fixed_rows(model.signature)
        if fixed in {None, call.rows}:
            return model.run(call.inputs, call.control)
        outputs = model.run(padded(call.inputs, by_rows=fixed - call.rows), call.control)
    except BackendError as error:
        return error
    except Exception as error:  # whatever it is, it ends this batch and not the thread
        return BackendError(f"the model raised {type(error).__name__}: {error}")
    return {name: array[: call.rows] for name, array in outputs.items()}


def fixed_rows(signature: Signature) -> int | None:
    """Return the number of rows that every call must have; ``None`` where any will do."""
    leading = {spec.shape[0] for spec in signature.inputs} - {VARIABLE}
    return min(leading, default=None)
