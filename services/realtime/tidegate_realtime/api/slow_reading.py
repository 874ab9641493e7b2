"""Questions that are slow to read: texts and images, which the loop must not wait for."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from tidegate.clock import Clock
from tidegate.units import Nanoseconds
from tidegate_realtime.api.forms import Asked
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.served import ServedVersion, one_row_ns
from tidegate_realtime.core.reading import FOREVER, Unread
from tidegate_realtime.runtime.reading import NotRead, Readers, Reading


class UnreadQuestion(Protocol):
    """What is asked of a question here; see ``Question`` and ``HttpQuestion``."""

    @property
    def body_bytes(self) -> int:
        """How long what was read is: what decoding goes by."""
        ...

    def decode(self, served: ServedVersion) -> Asked:
        """Make tensors of it, on any thread."""
        ...

    def hand_over(self) -> Callable[[], None]:
        """Return what must be called once nothing holds the body, instead of the question's end."""
        ...

    def on_departure(self, call: Callable[[], None]) -> None:
        """Say what to do if the caller leaves, or has left already."""
        ...


class Kind(NamedTuple):
    """Questions that take about the same time to read."""

    model: str
    version: str
    size: int
    """Bits of the body's length: twice as long is another kind."""


class SlowReader:
    """Reads such questions for all models of the process, each by its deadline."""

    def __init__(self, readers: Readers, *, metrics: GatewayMetrics, clock: Clock) -> None:
        """Take over idle threads; ``aclose`` ends them."""
        self._metrics = metrics
        self._reading = Reading(readers, clock=clock, on_read=self._count)
        metrics.waiting_to_be_read = lambda: self._reading.waiting

    async def read(
        self,
        question: UnreadQuestion,
        served: ServedVersion,
        *,
        arrived_at_ns: Nanoseconds,
        latest_ns: Nanoseconds,
    ) -> Asked | NotRead:
        """Return what is asked, or how the question has ended instead.

        Cancelling counts as the caller leaving.

        Args:
            question: Its body has come.
            served: What it is for.
            arrived_at_ns: When its last byte came.
            latest_ns: The latest deadline that it may turn out to have once it is read.

        Raises:
            RequestRejectedError: It cannot be read, or does not fit the model.
        """
        tag = served.response_tag
        unread = Unread(
            kind=Kind(tag.model_name, tag.model_version, question.body_bytes.bit_length()),
            arrived_at_ns=arrived_at_ns,
            deadline_at_ns=FOREVER if served.best_effort else latest_ns,
            after_ns=min(map(one_row_ns, served.driver.parts)),
        )
        read = self._reading.submit(
            partial(question.decode, served),
            unread,
            name=str(served.model.tag),
            hold=question.hand_over,
        )
        question.on_departure(read.cancel)
        return await read

    async def aclose(self) -> None:
        """See ``Reading.aclose``."""
        await self._reading.aclose()

    def _count(self, unread: Unread, took_ns: Nanoseconds) -> None:
        assert isinstance(unread.kind, Kind), "as it was submitted"
        self._metrics.read(unread.kind.model, unread.kind.version, took_ns)
