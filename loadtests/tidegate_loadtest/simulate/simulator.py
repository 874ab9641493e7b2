"""The loop: requests and the ends of batches in the order of time, each given to the policy.

Arrivals come sorted, so they are merged with the heap and never enter it; the heap holds what was
decided during the run: ends of batches and callers who leave. There is one timer, and a new
``WakeAt`` moves it. At one instant the order is: what was scheduled first, then the timer, then
the arrival.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, TypeAlias, assert_never

from tidegate.errors import BackendError
from tidegate.units import Nanoseconds
from tidegate_loadtest.simulate.executors import Execution
from tidegate_loadtest.simulate.policies.port import Policy
from tidegate_loadtest.simulate.recording import Recording
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
from tidegate_realtime.core.request import Request, State

NEVER: Final = Nanoseconds(1 << 62)
"""After every instant of a run: 146 years."""

Patience: TypeAlias = Callable[[Request], Nanoseconds | None]
"""When the caller of a request leaves; ``None``: he waits for his answer."""

Mishap: TypeAlias = Callable[[Batch], bool]
"""Whether a model call that has run its time ends with an exception."""

_OPEN: Final = frozenset({State.WAITING, State.RUNNING})
_FAILURE: Final = BackendError("the simulated call failed, as it was asked to")


@dataclass(frozen=True, slots=True)
class Replacement:
    """An executor that comes in the place of one whose call hung."""


Happening: TypeAlias = Batch | Request | Replacement
"""A call that ends, a caller who leaves, an executor that comes."""


class Simulator:
    """One policy, its executors and a clock; good for one run."""

    def __init__(
        self,
        policy: Policy,
        execution: Execution,
        *,
        executors: int = 1,
        patience: Patience | None = None,
        mishap: Mishap | None = None,
    ) -> None:
        """Start at 0 with idle executors.

        Args:
            policy: What decides; it must know of as many executors.
            execution: How long batches take.
            executors: Batches that may run at the same time, at least 1.
            patience: Which callers leave, and when; nobody by default.
            mishap: Which calls fail; none by default. Asked once a call, in the order of the ends.
        """
        self.policy = policy
        self.recording = Recording()
        self._execution = execution
        self._patience = patience
        self._mishap = mishap
        self._free_since_ns = [0] * executors
        """Of each idle executor; the one that was freed last is used first."""
        self._heap: list[tuple[int, int, Happening]] = []
        self._given_up: set[Batch] = set()
        self._scheduled = 0
        self._timer_at_ns: int = NEVER
        self._next_at_ns: int = NEVER
        """The earlier of the heap's first entry and the timer."""

    def run(self, requests: Iterable[Request]) -> Recording:
        """Let every request arrive, in the order given, and go on until all have ended.

        Raises:
            LostRequestsError: The policy lost a request or ended one twice.
        """
        recording, on_arrival = self.recording, self.policy.on_arrival
        arrived, at_ns = 0, Nanoseconds(0)
        for request in requests:
            at_ns = request.arrived_at_ns
            if self._next_at_ns <= at_ns:
                self._advance(at_ns)
            arrived += 1
            commands = on_arrival(request, at_ns)
            if commands:
                self._obey(commands, at_ns)
            if self._patience:
                self._schedule_departure(request, self._patience(request))
        recording.arrived, recording.last_arrival_ns = arrived, at_ns
        self._advance(NEVER - 1)
        recording.check()
        return recording

    def _advance(self, until_ns: int) -> None:
        """Let everything happen that is due until then, the instant itself included."""
        while self._next_at_ns <= until_ns:
            now_ns = Nanoseconds(self._next_at_ns)
            if self._heap and self._heap[0][0] <= self._timer_at_ns:
                happened = heappop(self._heap)[2]
                commands = self._happen(happened, now_ns)
            else:
                self._timer_at_ns = NEVER
                commands = self.policy.on_tick(now_ns)
            self._obey(commands, now_ns)

    def _happen(self, what: Happening, now_ns: Nanoseconds) -> list[Command]:
        if isinstance(what, Batch):
            if what in self._given_up:
                self._given_up.remove(what)
                return []  # nobody waits for it, and its executor has been replaced
            self._free_since_ns.append(now_ns)
            if self._mishap and self._mishap(what):
                return self.policy.on_batch_failed(what, _FAILURE, now_ns)
            return self.policy.on_batch_end(what, now_ns)
        if isinstance(what, Replacement):
            self._free_since_ns.append(now_ns)
            return self.policy.on_executor_change(1, now_ns)
        if what.state not in _OPEN:
            return []  # it ended before its caller lost patience
        self.recording.cancelled += 1
        return self.policy.on_cancel(what, now_ns)

    def _obey(self, commands: list[Command], now_ns: Nanoseconds) -> None:
        for command in commands:
            if isinstance(command, StartBatch):
                self._start(command.batch, now_ns)
            elif isinstance(command, Answer):
                self.recording.answer(command.batch, now_ns)
            elif isinstance(command, WakeAt):
                self._timer_at_ns = NEVER if command.at_ns is None else command.at_ns
            else:
                self._note(command, now_ns)
        self._next_at_ns = self._timer_at_ns
        if self._heap and self._heap[0][0] < self._next_at_ns:
            self._next_at_ns = self._heap[0][0]

    def _note(self, command: Ending | Terminate | GiveUp, now_ns: int) -> None:
        if isinstance(command, Reject):
            self.recording.reject(command)
        elif isinstance(command, Expire):
            self.recording.expire(command.request)
        elif isinstance(command, Fail):
            self.recording.fail(command)
        elif isinstance(command, GiveUp):
            self._given_up.add(command.batch)
            self.recording.give_up(command)
            self._schedule(Replacement(), now_ns)
        elif isinstance(command, Terminate | Forget):
            pass  # these executors cannot, and run every call to its end; no inputs are kept
        else:
            assert_never(command)

    def _start(self, batch: Batch, now_ns: Nanoseconds) -> None:
        took_ns = self._execution.draw_ns(batch.rows, now_ns)
        self.recording.start(batch, took_ns, now_ns)
        could_ns = max(self._free_since_ns.pop(), batch.pieces[0].request.arrived_at_ns)
        self.recording.idle_while_rows_wait_ns += now_ns - could_ns
        self._schedule(batch, now_ns + took_ns)

    def _schedule_departure(self, request: Request, at_ns: Nanoseconds | None) -> None:
        if at_ns is not None:
            self._schedule(request, at_ns)
            self._next_at_ns = min(self._next_at_ns, at_ns)

    def _schedule(self, what: Happening, at_ns: int) -> None:
        self._scheduled += 1
        heappush(self._heap, (at_ns, self._scheduled, what))
