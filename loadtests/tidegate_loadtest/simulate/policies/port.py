"""What every policy offers: the events of ``MicroBatcher``, which is one of them."""

from typing import Protocol

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Batch, Command
from tidegate_realtime.core.request import Request


class Policy(Protocol):
    """Decides which requests run together, and how each one ends."""

    def on_arrival(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Take a new request."""
        ...

    def on_cancel(self, request: Request, now_ns: Nanoseconds) -> list[Command]:
        """Forget a request whose caller left, and that has not ended."""
        ...

    def on_batch_end(self, batch: Batch, now_ns: Nanoseconds) -> list[Command]:
        """Learn that a batch is done and its executor idle."""
        ...

    def on_batch_failed(
        self, batch: Batch, error: BackendError, now_ns: Nanoseconds
    ) -> list[Command]:
        """Learn that a batch has ended with an exception, and its executor is idle."""
        ...

    def on_executor_change(self, by: int, now_ns: Nanoseconds) -> list[Command]:
        """Learn that executors have come: those in the place of others that were given up."""
        ...

    def on_tick(self, now_ns: Nanoseconds) -> list[Command]:
        """Learn that the instant of the last ``WakeAt`` has come."""
        ...
