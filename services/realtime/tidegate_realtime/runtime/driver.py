"""The driver: the only owner of futures and timers."""

from collections.abc import Generator

from tidegate.clock import Clock
from tidegate.inference.arrays import Tensors
from tidegate.tensors.signature import Signature
from tidegate.units import Nanoseconds
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.statistics import BatcherStatistics
from tidegate_realtime.runtime.outcomes import Outcome
from tidegate_realtime.runtime.ports import Backend


class Ticket:
    """Stands for one request until it ends; ``await`` it once for its outcome.

    Cancelling the await counts as the caller leaving, as ``BatchDriver.cancel`` does.
    """

    def __await__(self) -> Generator[object, None, Outcome]:
        """Wait for the outcome."""
        raise NotImplementedError


class BatchDriver:
    """Micro-batches one model version; every call is made on the event loop's thread."""

    def __init__(
        self,
        backend: Backend,
        *,
        signature: Signature,
        limits: BatchLimits,
        clock: Clock,
        name: str,
    ) -> None:
        raise NotImplementedError

    @property
    def limits(self) -> BatchLimits:
        """The limits in force: as asked for, the cap lowered to what the backend takes."""
        raise NotImplementedError

    async def warm_up(self) -> None:
        """Pay every first-use cost: run zeros through the backend, before the first ``submit``."""
        raise NotImplementedError

    def submit(
        self,
        inputs: Tensors,
        *,
        rows: int,
        deadline_at_ns: Nanoseconds,
        arrived_at_ns: Nanoseconds | None = None,
    ) -> Ticket:
        """Take a request; never blocks, and refuses by an outcome, not by raising."""
        raise NotImplementedError

    def cancel(self, ticket: Ticket) -> None:
        """Note that the caller left; without effect on a request that has ended."""
        raise NotImplementedError

    def statistics(self) -> BatcherStatistics:
        """Count requests by where they are and how they ended."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Stop admitting and wait until nothing waits or runs."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Drain, close the backend and check the totals."""
        raise NotImplementedError
