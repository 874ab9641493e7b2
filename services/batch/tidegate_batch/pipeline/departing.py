"""A worker that may be told, at any moment, that its machine will be taken away.

Notices arrive on threads of their own while the main thread scores. Whoever is told first says so
to the driver; a chunk that cannot be finished in time is dropped by ending the process at once.
"""

import threading
from collections.abc import Callable, Sequence

from tidegate.clock import Clock
from tidegate_batch.core.leaving import Farewell, Usual, farewell
from tidegate_batch.pipeline.engines.wire import encode
from tidegate_batch.ports import Leaving, Preemption, PreemptionNotice


class Departure:
    """Whether this worker leaves, and what becomes of the chunk in its hands.

    Args:
        clock: For how long chunks take.
        say: Sends a message to the driver.
        end: Ends this process at once, whatever it does.
    """

    def __init__(
        self, clock: Clock, *, say: Callable[[bytes], None], end: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._say = say
        self._end = end
        self._usual = Usual()
        self._began_at_ns: int | None = None
        self._one_at_a_time = threading.Lock()
        self.is_leaving = False

    def answer(self, message: bytes) -> None:
        """Send a message that is no chunk's end."""
        with self._one_at_a_time:
            self._say(message)

    def score(self, work: Callable[[], bytes]) -> None:
        """Do one chunk and say how it ended; end afterwards if the machine is taken away."""
        with self._one_at_a_time:
            self._began_at_ns = self._clock.now_ns()
        said = work()
        with self._one_at_a_time:
            assert self._began_at_ns is not None
            self._usual = self._usual.after(self._clock.now_ns() - self._began_at_ns)
            self._began_at_ns = None
            self._say(said)
            if self.is_leaving:
                self._end()

    def on_notice(self, preemption: Preemption) -> None:
        """Say that this worker leaves, and end now unless its chunk can be finished in time."""
        with self._one_at_a_time:
            if self.is_leaving:
                return
            self.is_leaving = True
            self._say(encode(Leaving(reason=preemption.reason)))
            if self._began_at_ns is None:
                self._end()
                return
            busy_ns = self._clock.now_ns() - self._began_at_ns
            if farewell(self._usual, busy_ns=busy_ns, left_ns=preemption.left_ns) is Farewell.DROP:
                self._end()


def watch(
    notices: Sequence[PreemptionNotice],
    departure: Departure,
    *,
    pause: Callable[[int], None],
    every_ns: int,
) -> None:
    """Ask each source again and again until one says that the machine will be taken away."""
    while not departure.is_leaving:
        for notice in notices:
            preemption = notice.look()
            if preemption is not None:
                departure.on_notice(preemption)
        pause(every_ns)
