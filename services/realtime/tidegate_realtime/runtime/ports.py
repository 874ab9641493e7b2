"""The port to whatever executes a batch: onnxruntime, a remote server, an emulated profile."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors

BatchResult: TypeAlias = Tensors | BackendError
"""One array ``(rows, …)`` per output, or why there are none."""


class Call(Protocol):
    """A batch that was begun."""

    def terminate(self) -> None:
        """End it early, because nobody waits for it any more; a backend that cannot ignores this.

        ``done`` is told as ever, once: a ``BackendError``, or the outputs if it was too late. It is
        no mistake before the call runs, after it has ended, or for the second time. To be called
        on the thread that began it; does not block.
        """
        ...


class Backend(Protocol):
    """Runs batches, up to ``executors`` at once.

    Buffers: the input arrays belong to the batch from ``begin`` until ``done`` is called; until
    then nobody writes to them. They may be the caller's own arrays, so that the backend does not
    write to them either. The outputs belong to whoever is told of them, and the backend keeps no
    view of them: a reused output buffer would change answers that are still being encoded.
    """

    @property
    def executors(self) -> int:
        """How many batches run at the same time; at least 1, and the same for ever."""
        ...

    @property
    def fixed_rows(self) -> int | None:
        """Rows that every model call has, where the model allows no other number.

        A smaller batch is padded by the backend and its outputs are cut; a larger one must not
        be given to it. ``None``: any number.
        """
        ...

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> Call:
        """Start one batch and return without waiting for it.

        Never raises: whatever goes wrong, then or later, is given to ``done``.

        Args:
            inputs: One array ``(rows, …)`` per input of the signature.
            rows: At least 1.
            done: Called exactly once, from any thread, possibly before ``begin`` returns. It
                neither blocks nor raises.
        """
        ...

    def replace(self, call: Call, *, ready: Callable[[BackendError | None], None]) -> None:
        """Leave an executor alone that hangs in a call, and start another one in its place.

        Returns without waiting, and never raises. What becomes of the call is nobody's business any
        more: ``done`` may still be told, or never, and ``close`` does not wait for it.

        Args:
            call: What ``begin`` has returned, and ``done`` was not told of.
            ready: Called exactly once, from any thread: with ``None`` when the other executor takes
                batches, else with why there is none. Then the same call may be replaced again.
        """
        ...

    def close(self) -> None:
        """Let the batches that were begun end, then release threads and memory.

        Blocks as long as these batches run, hence not to be called on an event loop. A batch
        begun afterwards ends in a ``BackendError``. Closing twice is closing once.
        """
        ...
