"""The driver: gives the batcher its events and obeys its commands, on asyncio.

With ``tickets`` (who waits), ``calls`` (what runs) and ``alarm`` (what is due) it is the only owner
of futures and timers. A request costs one future and no task; a batch costs one hop from the
backend's thread to the loop, which settles all its members.
"""

import asyncio
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Final, assert_never

from tidegate.clock import Clock
from tidegate.errors import BackendError, SettingError
from tidegate.inference.arrays import Tensors
from tidegate.inference.runner import DeviceLostError
from tidegate.observability import get_logger
from tidegate.tensors.signature import VARIABLE, Signature
from tidegate.units import Nanoseconds
from tidegate_realtime.core.cap import Cap, Infeasible
from tidegate_realtime.core.commands import (
    Answer,
    Batch,
    Command,
    Ending,
    Expire,
    Fail,
    Forget,
    GiveUp,
    Reject,
    StartBatch,
    Terminate,
    WakeAt,
)
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.overhead import Overhead
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.request import Request
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.runtime.alarm import Alarm
from tidegate_realtime.runtime.arrays import UnusableBatchError, gather, wrong_rows
from tidegate_realtime.runtime.calls import Calls
from tidegate_realtime.runtime.one_part import OnePart
from tidegate_realtime.runtime.outcomes import Cancelled, Expired, Failed, Rejected
from tidegate_realtime.runtime.ports import Backend, BatchResult
from tidegate_realtime.runtime.promise import REFUSING_NS, Promise
from tidegate_realtime.runtime.sharing import SharedExecutors
from tidegate_realtime.runtime.ticket import Ticket
from tidegate_realtime.runtime.tickets import Tickets
from tidegate_realtime.runtime.totals import report_totals
from tidegate_realtime.runtime.warm_up import at_length, teach, warm_up

log: Final = get_logger(__name__)
_bytes_of: Final = attrgetter("nbytes")


class BatchDriver(OnePart):
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
        promise: Promise | None = None,
    ) -> None:
        """Take over an idle backend.

        Args:
            backend: Closed by ``aclose``.
            signature: Of the model that the backend runs.
            limits: As asked for; ``self.limits`` says what is in force.
            clock: The one that deadlines are read from.
            name: What logs call the model, such as ``risk@7``.
            promise: The objective, from which everything else is derived once ``warm_up`` has
                measured the model; ``None``: the cap of ``limits``, and nobody is refused who
                finds room.
        """
        self._backend = backend
        self._calls = Calls(backend, self, clock=clock, name=name)
        self._signature = signature
        self._clock = clock
        self.name: Final = name
        self._loop = asyncio.get_running_loop()
        self._promise = promise
        self._model = None if promise is None else promise.latency_model(backend.fixed_rows)
        self._overhead = None if promise is None else Overhead(percentile=promise.percentile)
        self._outside_ns = 0
        self._refusing_until_ns = 0
        self._is_sheddable = promise is None or not promise.best_effort
        self._batcher = MicroBatcher(
            executors=backend.executors,
            limits=limits.lowered_to(backend.fixed_rows),
            model=self._model,
            objective_ns=None if promise is None else promise.objective_ns,
            overhead=self._overhead,
        )
        self._shared: SharedExecutors | None = None
        # Where all rows have one shape, which is the rule, nothing needs to be looked at.
        self._variable = [spec.name for spec in signature.inputs if VARIABLE in spec.row_shape]
        self._tickets = Tickets()
        self._outputs: dict[Batch, Tensors] = {}
        self._alarm = Alarm(clock, self._ring)
        self._closed = False

    @property
    def limits(self) -> BatchLimits:
        """The limits in force: those asked for, the cap lowered to what the backend takes."""
        return self._batcher.limits

    @property
    def is_available(self) -> bool:
        """Whether there is an executor at all: not while the only one is being replaced."""
        return self._batcher.is_available

    @property
    def pace(self) -> Pace:
        """The cap with its reason, the need and the expected times at present; to be read only."""
        return self._batcher.pace

    @property
    def shared(self) -> SharedExecutors | None:
        """The executors that other models use too; ``None``: they are its own."""
        return self._shared

    @property
    def latency_model(self) -> LatencyModel | None:
        """What was learned of execution times; ``None`` without a promise. To be read only."""
        return self._model

    def share(self, shared: SharedExecutors) -> None:
        """Run batches only when it is this model's turn; to be called before the first ``submit``.

        The warm-up does not wait for its turn. Ends with ``aclose``.
        """
        seat = self._batcher.share(shared.turns)
        shared.join(seat, self._dispatch, self._change_executors)
        self._shared = shared

    async def warm_up(self) -> None:
        """Pay every first-use cost before the first ``submit``; see ``runtime.warm_up``.

        With a promise, also measure how long batches take, and derive the cap.

        Raises:
            BackendError: The model does not run on zeros.
            SettingError: Not even one row is answered within the objective, and ``best_effort``
                does not allow that.
        """
        infeasible = await self.measure()
        if infeasible is not None:
            raise SettingError(infeasible.message(self.name))

    async def measure(self, *, length: int = 1) -> Infeasible | None:
        """Warm up with rows of some length, and leave it to the caller what follows.

        Args:
            length: Of the variable dimensions of a row.

        Returns:
            Why not even one row is answered within the objective; ``None``: it is, or it need not.

        Raises:
            BackendError: The model does not run on zeros.
        """
        promise, model = self._promise, self._model
        signature = at_length(self._signature, length)
        if promise is None or model is None:
            await warm_up(self._backend, signature, cap_rows=self.limits.cap_rows)
            return None
        await teach(model, promise, self._backend, signature, self._clock)
        self.pace.renew()
        cap = self.pace.cap
        if isinstance(cap, Infeasible) and not promise.best_effort:
            return cap
        if isinstance(cap, Cap) and cap.warning:
            log.warning("objective_tight", model=self.name, problem=cap.warning)
        log.info("model_measured", model=self.name, cap_rows=self.pace.cap_rows)
        return None

    def on_reply(self, outside_ns: int) -> None:
        """Learn what a request spent in the caller's code: decoding before, encoding after.

        The objective must leave room for it. Once in a while is enough.
        """
        self._outside_ns = outside_ns

    def refuse_unread(
        self, *, deadline_at_ns: Nanoseconds, arrived_at_ns: Nanoseconds, priority: int
    ) -> Rejected | None:
        """Refuse a request that has not been decoded, if that is certain; ``None``: submit it.

        What is refused so is counted like any other; it costs a fraction of decoding. Nobody is
        looked at unless somebody was refused within ``REFUSING_NS``.

        Args:
            deadline_at_ns: The latest that it may have.
            arrived_at_ns: When its last byte arrived.
            priority: 1 highest, 2 normal, 3 bulk.
        """
        now_ns = self._clock.now_ns()
        if now_ns >= self._refusing_until_ns:
            return None
        request = Request(1, None, arrived_at_ns, deadline_at_ns, priority, self._is_sheddable)
        commands = self._batcher.on_unread(request, now_ns)
        if commands is None:
            return None
        (reject,) = commands
        assert isinstance(reject, Reject)
        self._tickets.settled += 1
        return Rejected.of(reject, self.limits, model=self.name)

    def submit(
        self,
        inputs: Tensors,
        *,
        rows: int,
        deadline_at_ns: Nanoseconds,
        arrived_at_ns: Nanoseconds | None = None,
        priority: int = 2,
        sheddable: bool | None = None,
    ) -> Ticket:
        """Take a request; never blocks, and refuses by an outcome.

        Args:
            inputs: What ``Signature.check`` has accepted. The arrays belong to the request until
                it ends, and to its batch until that ends: nobody writes to them any more.
            rows: What ``Signature.check`` has counted.
            deadline_at_ns: From this instant of the driver's clock on the request is ``Expired``.
            arrived_at_ns: When its last byte arrived, if that was before now: waiting counts
                from there.
            priority: 1 highest, 2 normal, 3 bulk.
            sheddable: Whether it may be refused, expired or dropped; by default it may, unless
                the model's promise is best effort.

        Raises:
            ValueError: The arrays do not have this number of rows: a bug of the caller, which
                would give batch-mates each other's answers.
        """
        if fault := wrong_rows(inputs, rows):
            raise ValueError(f"{self.name}: input {fault}; it must be checked before it is sent")
        now_ns = self._clock.now_ns()
        request = Request(
            rows,
            self._shape_key(inputs),
            now_ns if arrived_at_ns is None else arrived_at_ns,
            deadline_at_ns,
            priority,
            self._is_sheddable if sheddable is None else sheddable,
            sum(map(_bytes_of, inputs.values())),
            is_newest_first=sheddable is None and not self._is_sheddable,
        )
        commands = self._batcher.on_arrival(request, now_ns)
        ticket = Ticket(self, request, inputs, self._loop.create_future())
        self._tickets.add(ticket)
        if commands or self._shared is not None:
            self._obey(commands, now_ns)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Note that the caller left; without effect on a request that has ended.

        The ticket resolves to ``Cancelled``. What waits never runs; what runs is computed and
        dropped, or ended early if nobody else waits for its batch.
        """
        if ticket in self._tickets:
            now_ns = self._clock.now_ns()
            commands = self._batcher.on_cancel(ticket.request, now_ns)
            self._tickets.settle(ticket.request, Cancelled())
            self._obey(commands, now_ns)

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended; for a scrape, not for each call."""
        return self._batcher.statistics()

    async def drain(self) -> None:
        """Stop admitting, and wait until nothing waits or runs.

        Bounded by the latest deadline that was admitted. Later submits end ``Rejected`` with code
        ``draining``. Cancelling stops the waiting, not the draining.
        """
        now_ns = self._clock.now_ns()
        self._obey(self._batcher.on_drain(now_ns), now_ns)
        await self._tickets.all_ended()

    async def aclose(self) -> None:
        """End everything, in the order in which nothing is lost.

        Takes as long as the running model call. Cancelling leaves the backend closing by itself.
        Closing twice is closing once.
        """
        await self.drain()  # what was admitted was promised an answer, and the backend gives it
        await self._calls.aclose()
        if self._shared is not None and self._batcher.seat is not None:
            self._shared.leave(self._batcher.seat)
        if not self._closed:  # only now has every call ended
            self._closed = True
            report_totals(self.name, self.statistics(), settled=self._tickets.settled)

    def _shape_key(self, inputs: Tensors) -> Hashable:
        variable = self._variable
        return tuple([inputs[name].shape[1:] for name in variable]) if variable else ()

    def _obey(self, commands: Sequence[Command], now_ns: Nanoseconds) -> None:
        for command in commands:
            match command:
                case StartBatch():
                    self._start(command.batch)
                case Answer():
                    self._tickets.answer(command.batch, self._outputs.pop(command.batch), now_ns)
                case WakeAt():
                    self._alarm.set(command.at_ns, now_ns)
                case Expire() | Fail() | Reject() | Forget():
                    self._end(command, now_ns)
                case Terminate() | GiveUp():
                    self._end_early(command, now_ns)
                case _:
                    assert_never(command)
        if self._shared is not None:
            self._shared.pass_on(now_ns)

    def _dispatch(self, now_ns: Nanoseconds) -> None:
        self._obey(self._batcher.on_tick(now_ns), now_ns)

    def _end(self, command: Ending, now_ns: Nanoseconds) -> None:
        match command:
            case Expire():
                self._tickets.settle(command.request, Expired.of(command.request, now_ns))
            case Fail():
                outcome = Failed(error=command.error, poison_row=command.poison_row)
                for request in command.requests:
                    self._tickets.settle(request, outcome)
            case Reject():
                self._refusing_until_ns = now_ns + REFUSING_NS
                if command.probe is not None:
                    self._tickets.keep_probe(command.probe, command.request)
                rejected = Rejected.of(command, self.limits, model=self.name)
                self._tickets.settle(command.request, rejected)
            case Forget():
                self._tickets.forget_probe(command.probe)

    def _end_early(self, command: Terminate | GiveUp, now_ns: Nanoseconds) -> None:
        if isinstance(command, Terminate):
            self._calls.terminate(command.batch)
        else:
            self._calls.give_up(command)
            if self._shared is not None:
                self._shared.tell_others(-1, now_ns, known_to=self._batcher.seat)

    def _start(self, batch: Batch) -> None:
        inputs: Tensors | BackendError
        try:
            inputs = gather(self._tickets.inputs_of(batch))
        except (ValueError, MemoryError) as error:  # rows that do not stack, or too many bytes
            inputs = UnusableBatchError(f"cannot stack a batch of {batch.rows} rows: {error}")
        self._calls.begin(batch, inputs)

    def on_result(self, batch: Batch, result: BatchResult, ended_at_ns: Nanoseconds) -> None:
        """Take in what a batch came to; told by ``runtime.calls``."""
        now_ns = self._clock.now_ns()
        if not isinstance(result, BackendError) and (fault := wrong_rows(result, batch.rows)):
            result = UnusableBatchError(f"output {fault}")
        if isinstance(result, BackendError):
            if not batch.is_terminated:
                log.warning("batch_failed", model=self.name, rows=batch.rows, error=str(result))
            may_rerun = not isinstance(result, UnusableBatchError | DeviceLostError)
            commands = self._batcher.on_batch_failed(batch, result, now_ns, may_rerun=may_rerun)
        else:
            if self._overhead is not None:
                self._overhead.on_request(now_ns - ended_at_ns + self._outside_ns, now_ns)
                self._outside_ns = 0  # told once: a batch that nobody waits for tells nothing new
            self._outputs[batch] = result
            took_ns = ended_at_ns - batch.started_at_ns
            commands = self._batcher.on_batch_end(batch, now_ns, took_ns=took_ns)
        self._obey(commands, now_ns)

    def on_executor(self) -> None:
        """Use an executor that has replaced one which hung; told by ``runtime.calls``."""
        now_ns = self._clock.now_ns()
        if self._shared is not None:
            self._shared.tell_others(+1, now_ns, known_to=self._batcher.seat)
        self._change_executors(+1, now_ns)

    def _change_executors(self, by: int, now_ns: Nanoseconds) -> None:
        self._obey(self._batcher.on_executor_change(by, now_ns), now_ns)

    def _ring(self, at_ns: Nanoseconds, now_ns: Nanoseconds) -> None:
        if self._overhead is not None:
            self._overhead.on_timer(now_ns - at_ns, now_ns)
        self._dispatch(now_ns)
