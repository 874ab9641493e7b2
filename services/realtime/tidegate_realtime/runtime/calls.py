"""The batches that a backend runs at present, as the event loop sees them.

Each result comes to the loop in one hop. A call that hangs is left alone: its backend is asked for
another executor, again and again until there is one or the backend is closed, and whatever it
still comes to is ignored.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from tidegate.clock import Clock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.observability import get_logger
from tidegate.units import Nanoseconds, ns_to_ms
from tidegate_realtime.core.commands import Batch, GiveUp
from tidegate_realtime.runtime.ports import Backend, BatchResult, Call

log: Final = get_logger(__name__)

AGAIN_S: Final = 5.0
"""Between two tries to replace an executor: the model's file may be back, or memory free."""


class _Owner(Protocol):
    def on_result(self, batch: Batch, result: BatchResult, ended_at_ns: Nanoseconds) -> None: ...

    def on_executor(self) -> None: ...


class Calls:
    """Begins batches and tells their owner, on the loop, what becomes of them."""

    def __init__(self, backend: Backend, owner: _Owner, *, clock: Clock, name: str) -> None:
        """Take over an idle backend; call it on the running loop.

        Args:
            backend: To run batches on.
            owner: Told of each result, and of each executor that has replaced another.
            clock: When a call ended is read from it.
            name: What logs call the model.
        """
        self._backend = backend
        self._owner = owner
        self._clock = clock
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._open: dict[Batch, Call | None] = {}
        self._again: dict[Call, asyncio.TimerHandle] = {}
        """When an executor that could not be replaced is asked for once more."""
        self._is_closed = False

    def begin(self, batch: Batch, inputs: Tensors | BackendError) -> None:
        """Let a batch run; without inputs it has failed."""
        self._open[batch] = None
        done = partial(self._report, batch)
        if isinstance(inputs, BackendError):
            done(inputs)
        else:
            self._open[batch] = self._backend.begin(inputs, rows=batch.rows, done=done)

    def terminate(self, batch: Batch) -> None:
        """Ask for an early end of a batch; without effect if it has ended."""
        call = self._open.get(batch)
        if call is not None:
            call.terminate()

    def give_up(self, command: GiveUp) -> None:
        """Forget a batch that hangs, and replace the executor that runs it."""
        batch = command.batch
        ran_ms = round(ns_to_ms(command.ran_ns))
        log.error("executor_given_up", model=self._name, rows=batch.rows, ran_ms=ran_ms)
        call = self._open.pop(batch, None)
        if call is not None:
            self._replace(call)

    async def aclose(self) -> None:
        """Ask for no executor any more, and close the backend; cancelling leaves it closing.

        A call that is given up meanwhile is not waited for.
        """
        self._is_closed = True
        for timer in self._again.values():
            timer.cancel()
        self._again.clear()
        await asyncio.to_thread(self._backend.close)  # waits for calls, which the loop must not

    def _report(self, batch: Batch, result: BatchResult) -> None:
        """Bring a result to the loop; called on any thread, once per batch."""
        with suppress(RuntimeError):  # the loop is closed, and with it everybody who waits
            ended_at_ns = self._clock.now_ns()
            self._loop.call_soon_threadsafe(self._end, batch, result, ended_at_ns)

    def _end(self, batch: Batch, result: BatchResult, ended_at_ns: Nanoseconds) -> None:
        if batch in self._open:  # else it was given up
            del self._open[batch]
            self._owner.on_result(batch, result, ended_at_ns)

    def _replace(self, call: Call) -> None:
        self._again.pop(call, None)

        def ready(fault: BackendError | None) -> None:
            with suppress(RuntimeError):  # as above
                self._loop.call_soon_threadsafe(self._replaced, call, fault)

        self._backend.replace(call, ready=ready)

    def _replaced(self, call: Call, fault: BackendError | None) -> None:
        if self._is_closed:
            return  # nobody is left who would use it
        if fault is None:
            log.info("executor_replaced", model=self._name)
            self._owner.on_executor()
        else:
            log.error(
                "executor_not_replaced", model=self._name, problem=str(fault), again_s=AGAIN_S
            )
            self._again[call] = self._loop.call_later(AGAIN_S, self._replace, call)
