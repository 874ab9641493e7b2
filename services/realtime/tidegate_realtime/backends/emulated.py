"""Replays a latency profile in real time: a model's timing without the model.

For trying out an objective, a traffic curve or a machine that is not there. The time is honest:
whatever the event loop, the threads and the interpreter's lock add to a real call, they add here
too. What is computed is not: see ``Placeholders``.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from random import Random
from typing import Final, TypeAlias

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.profiles import ProfileError, ProfileSampler, load_profile
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate.units import ns_to_seconds
from tidegate_realtime.backends.onnx import fixed_rows
from tidegate_realtime.runtime.ports import BatchResult, Call
from tidegate_realtime.runtime.warm_up import zeros

EARLY_NS: Final = 80_000
"""A sleep ends this much too late: 70 to 90 µs in the middle for sleeps of 0.2 to 20 ms on Linux,
of which 50 are the kernel's timer slack. Asking for less by as much is right to 0.05 ms in the
middle; to spin for the rest would take the interpreter's lock from the event loop."""

Answer: TypeAlias = Callable[[Tensors, int], BatchResult]
"""Inputs and number of rows to outputs; to raise ``BackendError`` is to return it."""


Wait: TypeAlias = Callable[[threading.Event, int], object]
"""Blocks a thread for that many nanoseconds, or until the event is set."""


def wait_ns(event: threading.Event, duration_ns: int) -> None:
    """Block this thread in real time; as exact as a sleep."""
    event.wait(ns_to_seconds(duration_ns))


@dataclass(slots=True, eq=False)
class _Call:
    inputs: Tensors
    rows: int
    begun_at_ns: int
    took_ns: int
    done: Callable[[BatchResult], None]
    terminated: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    """Which runs it."""
    is_given_up: bool = False

    def terminate(self) -> None:
        """Wake the thread that sleeps for it; before it began, it takes no time."""
        self.terminated.set()


class EmulatedBackend:
    """Answers every batch after a time drawn from a profile, ``executors`` batches at once.

    A batch ends its drawn time after it was begun, or after the one before it on the same executor
    *should* have ended: as on an accelerator, whose queue does not wait for our threads. Each
    executor is a thread; close the backend to end them. They are daemons for the one case in which
    nobody can wait for a thread: it hangs, and another one has taken its place.
    """

    def __init__(
        self,
        sampler: ProfileSampler,
        answer: Answer,
        *,
        clock: Clock,
        wait: Wait = wait_ns,
        executors: int = 1,
        fixed_rows: int | None = None,
    ) -> None:
        """Start the threads.

        Args:
            sampler: Draws the times, in the order in which batches begin.
            answer: What a batch is answered with.
            clock: In the same time as ``wait``.
            wait: Lets the time of a call pass.
            executors: Batches that run at once, at least 1.
            fixed_rows: Rows of every call, if the model allows no other number: a smaller batch
                takes as long as that many.
        """
        self.profile: Final = sampler.profile
        self.executors: Final = executors
        self.fixed_rows: Final = fixed_rows
        self._sampler = sampler
        self._answer = answer
        self._clock = clock
        self._wait = wait
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._threads: dict[threading.Thread, threading.Event] = {}
        """Those that take calls, with what is set when one has ended or was replaced; one that was
        replaced is not among them."""
        for _ in range(executors):
            self._start_thread()

    def begin(self, inputs: Tensors, *, rows: int, done: Callable[[BatchResult], None]) -> Call:
        """Draw a time and hand the batch to a thread, where ``done`` is told.

        Called by one thread alone, for the sampler is not to be shared. A batch with more
        rows than the profile knows ends in a ``BackendError`` at once.
        """
        now_ns = self._clock.now_ns()
        call = _Call(inputs, rows, now_ns, 0, done)
        if self._closed:
            done(BackendError(f"the emulated backend is closed; it takes no batch of {rows} rows"))
            return call
        try:
            call.took_ns = self._sampler.draw_ns(self.fixed_rows or rows, now_ns)
        except ProfileError as error:
            done(BackendError(str(error)))
        else:
            self._calls.put(call)
        return call

    def replace(self, call: Call, *, ready: Callable[[BackendError | None], None]) -> None:
        """Start another thread, which takes what waits; the one that hangs takes nothing more."""
        assert isinstance(call, _Call)
        with self._lock:
            call.is_given_up = True
            over = self._threads.pop(call.thread, None) if call.thread is not None else None
            if over is not None:
                over.set()
                if not self._closed:
                    self._start_thread()
            fault = BackendError("the emulated backend is closed") if self._closed else None
        ready(fault)

    def close(self) -> None:
        """End the threads after the batches that were begun, which take their time."""
        with self._lock:
            self._closed = True
            threads = tuple(self._threads.items())
        for _ in threads:
            self._calls.put(None)
        for thread, over in threads:
            over.wait()
            if thread in self._threads:  # else it hangs, and was given up
                thread.join()

    def _start_thread(self) -> None:
        name, over = f"emulated {self.profile.name} {len(self._threads)}", threading.Event()
        thread = threading.Thread(target=self._run, args=(over,), name=name, daemon=True)
        self._threads[thread] = over
        thread.start()

    def _run(self, over: threading.Event) -> None:
        try:
            self._serve()
        finally:
            over.set()

    def _serve(self) -> None:
        free_at_ns, thread = 0, threading.current_thread()
        while call := self._calls.get():
            with self._lock:
                if call.is_given_up:
                    continue  # before it began
                call.thread = thread
            free_at_ns = max(call.begun_at_ns, free_at_ns) + call.took_ns
            result = self._result(call)
            left_ns = free_at_ns - EARLY_NS - self._clock.now_ns()
            if left_ns > 0:
                self._wait(call.terminated, left_ns)
            if call.terminated.is_set():
                free_at_ns = self._clock.now_ns()
                result = BackendError("terminated, because nobody waited for it any more")
            with self._lock:
                if call.is_given_up:
                    return  # another thread has taken this one's place
                call.thread = None
            call.done(result)
            del call, result  # or its arrays would live until the next batch comes

    def _result(self, call: _Call) -> BatchResult:
        try:
            return self._answer(call.inputs, call.rows)
        except BackendError as error:
            return error
        except Exception as error:  # whatever it is, it ends this batch and not the thread
            return BackendError(f"the answer raised {type(error).__name__}: {error}")


class Placeholders:
    """Answers of the right names, datatypes and shapes, for a model that is not run.

    An output repeats the first input of its own datatype and row shape, so that a caller can tell
    its own rows from others'. Every other output is zeros (``BYTES``: empty strings), with variable
    dimensions of 1.
    """

    def __init__(self, signature: Signature) -> None:
        self._echoes = {
            output.name: source.name
            for output in signature.outputs
            if (source := _alike(output, signature)) is not None
        }
        others = (spec for spec in signature.outputs if spec.name not in self._echoes)
        self._zeros = Signature(inputs=tuple(others), outputs=())
        self._names = [spec.name for spec in signature.outputs]

    def __call__(self, inputs: Tensors, rows: int) -> Tensors:
        """Make outputs ``(rows, …)`` that share no memory with the inputs."""
        made: dict[str, Array] = dict(zeros(self._zeros, rows))
        made |= {name: np.array(inputs[source]) for name, source in self._echoes.items()}
        return {name: made[name] for name in self._names}


def _alike(output: TensorSpec, signature: Signature) -> TensorSpec | None:
    wanted = (output.datatype, output.row_shape)
    fits = (spec for spec in signature.inputs if (spec.datatype, spec.row_shape) == wanted)
    return next(fits, None)


def build_emulated(
    profile: str, signature: Signature, *, clock: Clock, executors: int = 1, seed: int = 0
) -> EmulatedBackend:
    """Build what ``tidegate serve --backend emulated:PROFILE`` runs instead of a model.

    Args:
        profile: What ``load_profile`` reads.
        signature: The published model's: what callers send and get back.
        clock: The system's.
        executors: Batches that run at once.
        seed: The same one draws the same times.

    Raises:
        ProfileError: There is no such profile, or it does not reach the rows that the model fixes.
    """
    loaded, rows = load_profile(profile), fixed_rows(signature)
    loaded.mean_ns(rows or 1)  # refused now, and not by each batch
    sampler = ProfileSampler(loaded, Random(seed), started_at_ns=clock.now_ns())
    return EmulatedBackend(
        sampler, Placeholders(signature), clock=clock, executors=executors, fixed_rows=rows
    )
