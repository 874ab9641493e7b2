"""A model whose rows have several padded lengths: a driver for each, on executors that they share.

A call with rows of 256 tokens takes ten times as long as one with rows of 16, and not even by the
same factor at each size. One latency model for all of them would promise everybody the time of the
long ones. Rows of different lengths never share a call in any case; so each length has a queue, a
cap and a latency model of its own, and the length goes next that has had least of the executors.

What cannot be interrupted cannot be hurried: a short text may have to wait for one long call.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.inference.arrays import Tensors
from tidegate.observability import get_logger
from tidegate.tensors.signature import VARIABLE, Signature
from tidegate.units import Nanoseconds
from tidegate_realtime.core.cap import Infeasible
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.core.summing import summed
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.outcomes import Rejected
from tidegate_realtime.runtime.sharing import SharedExecutors
from tidegate_realtime.runtime.ticket import Ticket

log: Final = get_logger(__name__)


class BucketedDriver:
    """What ``BatchDriver`` is to its callers, for a model with several lengths."""

    def __init__(
        self,
        build: Callable[[str], BatchDriver],
        *,
        signature: Signature,
        lengths: Sequence[int],
        executors: int,
        clock: Clock,
        name: str,
    ) -> None:
        """Start with nothing queued.

        Args:
            build: Makes the driver of one length, given what logs and refusals call it; all on one
                backend.
            signature: Of the model.
            lengths: That rows are padded to, rising; each row of another one counts to the next
                above, and what is longer than all to the last.
            executors: Of the backend.
            clock: The one that the drivers read.
            name: What logs call the model, such as ``minilm@1``.
        """
        self._name = name
        self._clock = clock
        self.lengths: Final = tuple(lengths)
        firsts = (1, *(length + 1 for length in lengths))
        self.ranges: Final = tuple(f"{a} to {b}" for a, b in zip(firsts, lengths, strict=False))
        """The lengths of each driver's rows, before they are padded."""
        self.parts: Final = tuple(build(f"{name} with {each} tokens") for each in self.ranges)
        """The driver of each length."""
        self._shared: SharedExecutors | None = None
        # All have one objective, so that urgency tells little. With a lead, long calls go before a
        # short one that came later: simulated with an objective of 100 ms, 30 texts of 67 ms and 30
        # of 5 ms a second, 15 % of the short ones that were accepted came too late. Without: 0.
        self._turns = SharedExecutors(executors, lead_ns=0, is_one_backend=True)
        for part in self.parts:
            part.share(self._turns)
        self._variable = [
            (spec.name, 1 + place)
            for spec in signature.inputs
            for place, size in enumerate(spec.row_shape)
            if size == VARIABLE
        ]

    def part_for(self, inputs: Tensors) -> BatchDriver:
        """Return the driver of the length that rows have."""
        longest = max(inputs[name].shape[axis] for name, axis in self._variable)
        return self.parts[min(bisect_left(self.lengths, longest), len(self.parts) - 1)]

    @property
    def busiest(self) -> BatchDriver:
        """The driver of the length that takes most of the executors' time of late.

        Without any load that of the shortest. Its numbers are shown where there is room for one.
        """
        now_ns = self._clock.now_ns()
        return max(self.parts, key=lambda part: _load(part.pace, now_ns))

    @property
    def limits(self) -> BatchLimits:
        """The limits in force, for each length."""
        return self.parts[0].limits

    @property
    def is_available(self) -> bool:
        """Whether there is an executor at all: not while the only one is being replaced."""
        return self.parts[0].is_available

    @property
    def pace(self) -> Pace:
        """Of the busiest length."""
        return self.busiest.pace

    @property
    def latency_model(self) -> LatencyModel | None:
        """Of the busiest length."""
        return self.busiest.latency_model

    @property
    def shared(self) -> SharedExecutors | None:
        """The executors that other models use too; ``None``: they are its own."""
        return self._shared

    def share(self, shared: SharedExecutors) -> None:
        """Run batches only when it is this model's turn; see ``BatchDriver.share``."""
        self._turns.nest(shared)
        self._shared = shared

    async def warm_up(self) -> None:
        """Measure each length, the shortest first; see ``BatchDriver.warm_up``.

        Raises:
            BackendError: The model does not run on zeros of some length.
            SettingError: Not even one of the shortest rows is answered within the objective.
        """
        too_slow: dict[str, Infeasible] = {}
        for length, part in zip(self.lengths, self.parts, strict=True):
            infeasible = await part.measure(length=length)
            if infeasible is not None:
                too_slow[part.name] = infeasible
        if (first := too_slow.get(self.parts[0].name)) is not None:
            raise SettingError(first.message(self.parts[0].name))
        if too_slow:
            problem = "; ".join(each.message(name) for name, each in too_slow.items())
            log.warning("texts_too_slow", model=self._name, problem=problem)

    def on_reply(self, outside_ns: int) -> None:
        """Learn what a request spent in the caller's code; see ``BatchDriver.on_reply``."""
        for part in self.parts:
            part.on_reply(outside_ns)

    def refuse_unread(
        self, *, deadline_at_ns: Nanoseconds, arrived_at_ns: Nanoseconds, priority: int
    ) -> Rejected | None:
        """Refuse nobody: how long the rows are is not known before they are read."""
        del deadline_at_ns, arrived_at_ns, priority
        return None

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
        """Take a request; see ``BatchDriver.submit``."""
        return self.part_for(inputs).submit(
            inputs,
            rows=rows,
            deadline_at_ns=deadline_at_ns,
            arrived_at_ns=arrived_at_ns,
            priority=priority,
            sheddable=sheddable,
        )

    def statistics(self) -> BatcherStatistics:
        """Count the requests of all lengths."""
        return summed([part.statistics() for part in self.parts])

    async def drain(self) -> None:
        """Stop admitting, and wait until nothing waits or runs; see ``BatchDriver.drain``."""
        async with asyncio.TaskGroup() as draining:
            for part in self.parts:
                draining.create_task(part.drain())

    async def aclose(self) -> None:
        """End everything; see ``BatchDriver.aclose``."""
        await self.drain()  # all of them first: the backend that the first one closes is theirs too
        for part in self.parts:
            await part.aclose()
        self._turns.leave_outer()


Driver: TypeAlias = BatchDriver | BucketedDriver


def _load(pace: Pace, now_ns: Nanoseconds) -> float:
    """Return the executor time that arrivals ask for, in nanoseconds a second, one by one."""
    one_row_ns = pace.model.mean_ns(1) if pace.model is not None and pace.is_known else 1
    return pace.rate.smooth_rows_per_second(now_ns) * one_row_ns
