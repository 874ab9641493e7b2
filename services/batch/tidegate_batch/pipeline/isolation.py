"""Scoring rows that may kill whoever scores them: in a process apart, which may die in peace.

When it dies over several rows they are bisected, as for rows that make a model raise. A row that
was alone in its hands each time it died, several times in a row, becomes a dead letter. That a
kill came from outside looks the same, but is no reason to die again over the same single row.

Until it has said that it is ready it has seen no row, so that its death then is no row's doing:
the chunk is tried again. Nor is a lost device, with which the worker itself is replaced.
"""

import os
import struct
import subprocess
from collections.abc import Callable, Sequence
from typing import IO, Final, Self

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.errors import BackendError, PartUnavailableError, RequestRejectedError
from tidegate.inference.arrays import Array
from tidegate.inference.model import Model
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError
from tidegate_batch.pipeline.answering import Answerer, code_of

DEATHS_OF_A_ROW: Final = 3
"""Once may be chance, a machine short of memory for a moment, or a kill from outside."""
_LENGTH: Final = struct.Struct("<Q")
_READY: Final = b""
"""The first frame of the process apart."""


class RowKillsError(BackendError):
    """A row kills the process that scores it, each time."""

    code = "row_kills"


class FailedApartError(BackendError):
    """A batch that failed in a process apart; bears the code of its cause there."""

    code: str = BackendError.code  # type: ignore[misc] # each may bear the code of its own cause

    @classmethod
    def of_cause(cls, message: str, *, code: str) -> Self:
        """Pass on what the other process said."""
        error = cls(message)
        error.code = code
        return error


class ArrayBytes(msgspec.Struct, frozen=True, kw_only=True):
    """One array, as plain values."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: bytes = b""
    texts: list[str | None] | None = None
    """Instead of ``values`` in an array of Python objects."""


class AnswersApart(msgspec.Struct, frozen=True, kw_only=True):
    """What the other process says of a batch."""

    answers: list[ArrayBytes] = []
    code: str | None = None
    """Of the error that the batch raised, if it did."""
    message: str = ""


class ProcessDiedError(Exception):
    """The other process is gone, over the rows that it had."""


class ProcessApart:
    """A process with a model, started anew whenever it has died.

    Args:
        command: Starts it; it reads one setup and then batches, a frame each.
        setup: What it is told first.
    """

    def __init__(self, command: Sequence[str], setup: bytes) -> None:
        self._command = list(command)
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, batch: pa.RecordBatch) -> AnswersApart:
        """Have a batch answered.

        Raises:
            ProcessDiedError: Before it had answered; the next call starts another.
            PartUnavailableError: Before it had loaded the model, and so without having seen a row.
        """
        process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_frame(process.stdin, _ipc_of(batch))
            reply = read_frame(process.stdout)
        except (OSError, EOFError) as error:
            self.close()
            raise ProcessDiedError(f"exit status {process.returncode}") from error
        return msgspec.msgpack.decode(reply, type=AnswersApart)

    def close(self) -> None:
        """End it, if there is one; safe to repeat."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except BrokenPipeError:  # of what it never read
                continue
        process.kill()
        process.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write_frame(process.stdin, self._setup)
            read_frame(process.stdout)
        except (OSError, EOFError) as error:
            self.close()
            raise PartUnavailableError(
                "the process that scores rows apart died before it was ready (exit status "
                f"{process.returncode}): the worker's log has its last words. If it has none, look "
                "at this machine's memory: the model is held there a second time."
            ) from error
        return process


class IsolatedAnswerer(Answerer):
    """Answers batches by a process apart."""

    def __init__(self, model: Model, process: ProcessApart, *, texts: Sequence[str] = ()) -> None:
        super().__init__(model, texts=texts)
        self._columns = list(model.columns)
        self._process = process

    def _scored(self, batch: pa.RecordBatch) -> dict[str, Array]:
        asked = batch.select(self._columns)
        tries = DEATHS_OF_A_ROW if batch.num_rows == 1 else 1
        for left in reversed(range(tries)):
            try:
                return _opened(self._process.ask(asked))
            except DeviceLostError:
                self._process.close()
                raise
            except ProcessDiedError as error:
                if not left:
                    raise RowKillsError(
                        f"the process that scored it died ({error}), {tries} times out of {tries}"
                    ) from error
        raise AssertionError("at least one try was made")


def serve(stdin: IO[bytes], stdout: IO[bytes], load: Callable[[bytes], Model]) -> None:
    """Be the process apart: load, say so, then answer batches until the pipe closes."""
    answerer = _PlainAnswerer(load(read_frame(stdin)))
    write_frame(stdout, _READY)
    while True:
        try:
            frame = read_frame(stdin)
        except EOFError:
            return
        with pa.ipc.open_stream(frame) as stream:
            batch = stream.read_next_batch()
        write_frame(stdout, msgspec.msgpack.encode(answerer.told(batch)))


class _PlainAnswerer(Answerer):
    def told(self, batch: pa.RecordBatch) -> AnswersApart:
        try:
            return AnswersApart(answers=_packed(self._answers(batch)))
        except MemoryError as error:
            return AnswersApart(code=OutOfMemoryError.code, message=str(error))
        except (BackendError, RequestRejectedError) as error:
            return AnswersApart(code=code_of(error), message=str(error))


def _packed(answers: dict[str, Array]) -> list[ArrayBytes]:
    packed = []
    for name, values in answers.items():
        is_plain = values.dtype.kind != "O"
        packed.append(
            ArrayBytes(
                name=name,
                dtype=values.dtype.str,
                shape=values.shape,
                values=np.ascontiguousarray(values).tobytes() if is_plain else b"",
                texts=None if is_plain else values.ravel().tolist(),
            )
        )
    return packed


def _opened(said: AnswersApart) -> dict[str, Array]:
    if said.code == OutOfMemoryError.code:
        raise OutOfMemoryError(said.message)
    if said.code == DeviceLostError.code:
        raise DeviceLostError(said.message)
    if said.code is not None:
        raise FailedApartError.of_cause(said.message, code=said.code)
    return {array.name: _array(array) for array in said.answers}


def _array(packed: ArrayBytes) -> Array:
    if packed.texts is None:
        return np.frombuffer(packed.values, dtype=packed.dtype).reshape(packed.shape)
    array = np.empty(len(packed.texts), dtype=object)
    array[:] = packed.texts
    return array.reshape(packed.shape)


def _ipc_of(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def write_frame(pipe: IO[bytes], body: bytes) -> None:
    """Write one message, its length first."""
    pipe.write(_LENGTH.pack(len(body)) + body)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes:
    """Read one message.

    Raises:
        EOFError: The other end is gone.
    """
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    body = pipe.read(size)
    if len(body) < size:
        raise EOFError
    return body


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Take this process's standard streams for frames; what a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), answers
