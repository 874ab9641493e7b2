"""The driver: gives the batcher its events and obeys its commands, on asyncio.

It is the only owner of futures and timers. A request costs one future and no task; a batch costs
one hop from the backend's thread to the loop, which settles all its members.
"""

import asyncio
from collections.abc import Generator, Hashable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Final, assert_never

from tidegate.clock import Clock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.observability import get_logger
from tidegate.tensors.signature import VARIABLE, Signature
from tidegate.units import NS_PER_MS, Nanoseconds, ns_to_seconds
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Expire,
    Fail,
    Piece,
    Reject,
    StartBatch,
    WakeAt,
)
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.runtime.arrays import cut, gather, wrong_rows
from tidegate_realtime.runtime.outcomes import (
    Answered,
    Cancelled,
    Expired,
    Failed,
    Outcome,
    Rejected,
    time_spent,
)
from tidegate_realtime.runtime.ports import Backend, BatchResult
from tidegate_realtime.runtime.warm_up import warm_up

log: Final = get_logger(__name__)


class Ticket:
    """Stands for one request until it ends; ``await`` it, in one place, for its outcome."""

    __slots__ = ("_answered", "_driver", "_future", "_inputs", "_request")

    def __init__(
        self,
        driver: "BatchDriver",
        request: Request,
        inputs: Tensors,
        future: asyncio.Future[Outcome],
    ) -> None:
        self._driver = driver
        self._request = request
        self._inputs = inputs
        self._future = future
        self._answered: list[tuple[int, Tensors]] = []
        """Of a request that runs in pieces: first row and outputs of those that have ended."""

    def __await__(self) -> Generator[object, None, Outcome]:
        """Wait for the outcome; every expected one is a value and nothing is raised.

        Cancelling the await counts as the caller leaving: what waits never runs, what runs is
        computed and dropped, and the batch-mates notice nothing.
        """
        try:
            return (yield from self._future.__await__())
        except asyncio.CancelledError:
            self._driver.cancel(self)
            raise


class BatchDriver:
    """Micro-batches one model version; every call is made on the event loop's thread.

    It lives from its construction on a running loop to ``aclose``, which must be awaited: a
    backend that is not closed may keep the process alive.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        signature: Signature,
        limits: BatchLimits,
        clock: Clock,
        name: str,
    ) -> None:
        """Take over an idle backend.

        Args:
            backend: Closed by ``aclose``.
            signature: Of the model that the backend runs.
            limits: As asked for; ``self.limits`` says what is in force.
            clock: The one that deadlines are read from.
            name: What logs call the model, such as ``risk@7``.
        """
        self._backend = backend
        self._signature = signature
        self._clock = clock
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._batcher = MicroBatcher(
            executors=backend.executors, limits=limits.lowered_to(backend.fixed_rows)
        )
        # Where all rows have one shape, which is the rule, nothing needs to be looked at.
        self._variable = [spec.name for spec in signature.inputs if VARIABLE in spec.row_shape]
        self._tickets: dict[Request, Ticket] = {}
        self._outputs: dict[Batch, Tensors] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._drained = asyncio.Event()
        self._settled = 0
        self._closed = False

    @property
    def limits(self) -> BatchLimits:
        """The limits in force: those asked for, the cap lowered to what the backend takes."""
        return self._batcher.limits

    async def warm_up(self) -> None:
        """Pay every first-use cost before the first ``submit``; see ``runtime.warm_up``.

        Raises:
            BackendError: The model does not run on zeros.
        """
        await warm_up(self._backend, self._signature, cap_rows=self.limits.cap_rows)

    def submit(
        self,
        inputs: Tensors,
        *,
        rows: int,
        deadline_at_ns: Nanoseconds,
        arrived_at_ns: Nanoseconds | None = None,
    ) -> Ticket:
        """Take a request; never blocks, and refuses by an outcome.

        Args:
            inputs: What ``Signature.check`` has accepted. The arrays belong to the request until
                it ends, and to its batch until that ends: nobody writes to them any more.
            rows: What ``Signature.check`` has counted.
            deadline_at_ns: From this instant of the driver's clock on the request is ``Expired``.
            arrived_at_ns: When its last byte arrived, if that was before now: waiting counts
                from there.

        Raises:
            ValueError: The arrays do not have this number of rows: a bug of the caller, which
                would give batch-mates each other's answers.
        """
        if fault := wrong_rows(inputs, rows):
            raise ValueError(f"{self._name}: input {fault}; it must be checked before it is sent")
        now_ns = self._clock.now_ns()
        request = Request(
            rows,
            self._shape_key(inputs),
            now_ns if arrived_at_ns is None else arrived_at_ns,
            deadline_at_ns,
        )
        commands = self._batcher.on_arrival(request, now_ns)
        ticket = Ticket(self, request, inputs, self._loop.create_future())
        self._tickets[request] = ticket
        self._obey(commands, now_ns)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Note that the caller left; without effect on a request that has ended.

        The ticket resolves to ``Cancelled``. What waits never runs; what runs is computed and
        dropped.
        """
        if ticket._request in self._tickets:
            now_ns = self._clock.now_ns()
            commands = self._batcher.on_cancel(ticket._request, now_ns)
            self._settle(ticket._request, Cancelled())
            self._obey(commands, now_ns)

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended; for a scrape, not for each call."""
        return self._batcher.statistics()

    async def drain(self) -> None:
        """Stop admitting, and wait until nothing waits or runs.

        Bounded by the latest deadline that was admitted. Later submits end ``Rejected`` with code
        ``draining``. Cancelling stops the waiting, not the draining.
        """
        self._draining = True
        now_ns = self._clock.now_ns()
        self._obey(self._batcher.on_drain(now_ns), now_ns)
        if not self._tickets:
            self._drained.set()
        await self._drained.wait()

    async def aclose(self) -> None:
        """End everything, in the order in which nothing is lost.

        Takes as long as the running model call, which nothing can stop. Cancelling leaves the
        backend closing by itself. Closing twice is closing once.
        """
        await self.drain()  # what was admitted was promised an answer, and the backend gives it
        await asyncio.to_thread(self._backend.close)  # waits for calls, which the loop must not
        if not self._closed:
            self._closed = True
            self._report_totals()  # only now has every call ended

    def _shape_key(self, inputs: Tensors) -> Hashable:
        return tuple([inputs[name].shape[1:] for name in self._variable])

    def _obey(self, commands: Sequence[Command], now_ns: Nanoseconds) -> None:
        for command in commands:
            match command:
                case StartBatch():
                    self._start(command.batch)
                case Answer():
                    self._answer(command.batch, now_ns)
                case WakeAt():
                    self._wake_at(command.at_ns, now_ns)
                case Expire():
                    self._settle(command.request, Expired.of(command.request, now_ns))
                case Fail():
                    self._fail(command)
                case Reject():
                    self._settle(command.request, Rejected.of(command, self.limits))
                case _:
                    assert_never(command)

    def _start(self, batch: Batch) -> None:
        done = partial(self._report, batch)
        try:
            inputs = gather([self._rows_of(piece) for piece in batch.pieces])
        except (ValueError, MemoryError) as error:  # rows that do not stack, or too many bytes
            done(BackendError(f"cannot stack a batch of {batch.rows} rows: {error}"))
        else:
            self._backend.begin(inputs, rows=batch.rows, done=done)

    def _rows_of(self, piece: Piece) -> Tensors:
        inputs = self._tickets[piece.request]._inputs
        if piece.rows == piece.request.rows:
            return inputs
        return cut(inputs, piece.first_row, piece.first_row + piece.rows)

    def _report(self, batch: Batch, result: BatchResult) -> None:
        """Bring a result to the loop; called on any thread, once per batch."""
        with suppress(RuntimeError):  # the loop is closed, and with it everybody who waits
            self._loop.call_soon_threadsafe(self._end, batch, result)

    def _end(self, batch: Batch, result: BatchResult) -> None:
        now_ns = self._clock.now_ns()
        if not isinstance(result, BackendError) and (fault := wrong_rows(result, batch.rows)):
            result = BackendError(f"output {fault}")
        if isinstance(result, BackendError):
            log.warning("batch_failed", model=self._name, rows=batch.rows, error=str(result))
            self._obey(self._batcher.on_batch_failed(batch, result, now_ns), now_ns)
        else:
            self._outputs[batch] = result
            self._obey(self._batcher.on_batch_end(batch, now_ns), now_ns)

    def _answer(self, batch: Batch, now_ns: Nanoseconds) -> None:
        outputs = self._outputs.pop(batch)
        stop = 0
        for piece in batch.pieces:
            start, stop = stop, stop + piece.rows
            if ticket := self._tickets.get(piece.request):  # else it ended, and nobody wants these
                self._answer_piece(ticket, piece, cut(outputs, start, stop), now_ns)

    def _answer_piece(
        self, ticket: Ticket, piece: Piece, outputs: Tensors, now_ns: Nanoseconds
    ) -> None:
        request = piece.request
        if piece.rows < request.rows:
            ticket._answered.append((piece.first_row, outputs))
            if request.state is not State.ANSWERED:
                return
            outputs = gather([part for _, part in sorted(ticket._answered, key=itemgetter(0))])
        self._settle(request, Answered(outputs, *time_spent(request, now_ns)))

    def _fail(self, fail: Fail) -> None:
        for request in fail.requests:
            self._settle(request, Failed(error=fail.error))

    def _settle(self, request: Request, outcome: Outcome) -> None:
        """End a request; the only place where a future is touched, in whatever state it is."""
        future = self._tickets.pop(request)._future
        self._settled += 1
        if not future.done():
            future.set_result(outcome)
        if self._draining and not self._tickets:
            self._drained.set()

    def _wake_at(self, at_ns: Nanoseconds | None, now_ns: Nanoseconds) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            self._wake_in(Nanoseconds(at_ns - now_ns), at_ns)

    def _wake_in(self, delay_ns: Nanoseconds, at_ns: Nanoseconds) -> None:
        self._timer = self._loop.call_later(ns_to_seconds(delay_ns), self._tick, at_ns)

    def _tick(self, at_ns: Nanoseconds) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < at_ns:
            # uvloop's timers come up to half a millisecond early, and it takes a shorter one for
            # "at once": asked for the exact rest, it would spin until the deadline.
            self._wake_in(Nanoseconds(max(at_ns - now_ns, NS_PER_MS)), at_ns)
        else:
            self._obey(self._batcher.on_tick(now_ns), now_ns)

    def _report_totals(self) -> None:
        statistics = self.statistics()
        totals = {
            "arrived": statistics.arrived,
            "answered": statistics.answered,
            "rejected": statistics.rejected,
            "expired": statistics.expired,
            "cancelled": statistics.cancelled,
            "failed": statistics.failed,
        }
        if statistics.unaccounted or self._settled != statistics.arrived:
            log.error("totals_differ", model=self._name, settled=self._settled, **totals)
        else:
            log.info("model_closed", model=self._name, **totals)
