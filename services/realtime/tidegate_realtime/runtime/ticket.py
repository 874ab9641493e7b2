"""What a caller of the driver holds until its request has ended."""

import asyncio
from collections.abc import Generator
from typing import Protocol

from tidegate.inference.arrays import Tensors
from tidegate_realtime.core.request import Request
from tidegate_realtime.runtime.outcomes import Outcome


class _Driver(Protocol):
    def cancel(self, ticket: "Ticket") -> None: ...


class Ticket:
    """Stands for one request until it ends; ``await`` it, in one place, for its outcome."""

    __slots__ = ("_driver", "answered", "future", "inputs", "request")

    def __init__(
        self,
        driver: _Driver,
        request: Request,
        inputs: Tensors,
        future: asyncio.Future[Outcome],
    ) -> None:
        """Only a driver makes tickets, and all but awaiting them is its own business."""
        self._driver = driver
        self.request = request
        self.inputs = inputs
        self.future = future
        self.answered: list[tuple[int, Tensors]] = []
        """Of a request that runs in pieces: first row and outputs of those that have ended."""

    def cancel(self) -> None:
        """Note that the caller left; see the driver's ``cancel``."""
        self._driver.cancel(self)

    def __await__(self) -> Generator[object, None, Outcome]:
        """Wait for the outcome; every expected one is a value and nothing is raised.

        Cancelling the await counts as the caller leaving: what waits never runs, what runs is
        computed and dropped, and the batch-mates notice nothing.
        """
        try:
            return (yield from self.future.__await__())
        except asyncio.CancelledError:
            self._driver.cancel(self)
            raise
