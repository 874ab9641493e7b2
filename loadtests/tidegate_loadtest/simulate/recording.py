"""What happened in one run, request by request and batch by batch."""

from array import array

from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Batch, Fail, GiveUp, Reject
from tidegate_realtime.core.request import Request, State

ANSWERED = State.ANSWERED


class LostRequestsError(RuntimeError):
    """Requests ended twice or never: a bug of the policy. No figure of the run means anything."""


class Recording:
    """Columns that grow with the run; 24 bytes a request, so that a day of them fits."""

    __slots__ = (
        "answered_at_ns",
        "answered_deadline_ns",
        "answered_ended_ns",
        "arrived",
        "batch_at_ns",
        "batch_rows",
        "batch_took_ns",
        "cancelled",
        "expired_at_ns",
        "failed_at_ns",
        "idle_while_rows_wait_ns",
        "last_arrival_ns",
        "probes",
        "probes_in_time",
        "rejected_at_ns",
    )

    def __init__(self) -> None:
        self.arrived = 0
        self.last_arrival_ns = 0
        self.answered_at_ns = array("q")
        """When each answered request arrived, in the order of the answers."""
        self.answered_deadline_ns = array("q")
        """Until when its answer was worth something."""
        self.answered_ended_ns = array("q")
        self.rejected_at_ns = array("q")
        """When each refused request arrived."""
        self.expired_at_ns = array("q")
        """When each request arrived that was accepted and never answered."""
        self.failed_at_ns = array("q")
        """When each request arrived that a failed batch took along."""
        self.cancelled = 0
        self.probes = 0
        """Refused requests that ran all the same, for nobody; they count as rejected."""
        self.probes_in_time = 0
        """Those that would have made it: refused in error."""
        self.batch_at_ns = array("q")
        self.batch_rows = array("q")
        self.batch_took_ns = array("q")
        self.idle_while_rows_wait_ns = 0
        """Over all executors: time between "a row waits" and "an idle executor takes it"."""

    def answer(self, batch: Batch, now_ns: int) -> None:
        """Note whom a batch completed; whoever ended otherwise before is in another column."""
        if self.probes:
            self.probes_in_time += sum(now_ns <= at_ns for at_ns in _ended_probes(batch))
        arrived, due = self.answered_at_ns.append, self.answered_deadline_ns.append
        ended = self.answered_ended_ns.append
        for piece in batch.pieces:
            request = piece.request
            if request.state is ANSWERED:
                arrived(request.arrived_at_ns)
                due(request.deadline_at_ns)
                ended(now_ns)

    def start(self, batch: Batch, took_ns: int, now_ns: int) -> None:
        """Note a model call."""
        self.batch_at_ns.append(now_ns)
        self.batch_rows.append(batch.rows)
        self.batch_took_ns.append(took_ns)

    def reject(self, command: Reject) -> None:
        """Note a refusal, and whether a probe tests it."""
        self.rejected_at_ns.append(command.request.arrived_at_ns)
        self.probes += command.probe is not None

    def expire(self, request: Request) -> None:
        """Note a request that was accepted in vain."""
        self.expired_at_ns.append(request.arrived_at_ns)

    def fail(self, command: Fail) -> None:
        """Note whom a failed batch took along."""
        self.failed_at_ns.extend([r.arrived_at_ns for r in command.requests if not r.is_probe])

    def give_up(self, command: GiveUp) -> None:
        """Note that a call hangs, and was waited for no longer."""
        at_ns, ran_ns = command.batch.started_at_ns, command.ran_ns
        for place in reversed(range(len(self.batch_at_ns))):
            if self.batch_at_ns[place] == at_ns and self.batch_took_ns[place] > ran_ns:
                self.batch_took_ns[place] = ran_ns
                return

    def judge_by(self, objective_ns: int) -> None:
        """Call an answer late by an objective that the policy did not go by."""
        self.answered_deadline_ns = array("q", (at + objective_ns for at in self.answered_at_ns))

    def check(self) -> None:
        """Hold the run to its first promise: every request that arrived ended exactly once.

        Raises:
            LostRequestsError: The totals do not agree.
        """
        ended = (
            len(self.answered_at_ns)
            + len(self.rejected_at_ns)
            + len(self.expired_at_ns)
            + len(self.failed_at_ns)
            + self.cancelled
        )
        if ended != self.arrived:
            raise LostRequestsError(
                f"{self.arrived} requests arrived and {ended} ended: answered "
                f"{len(self.answered_at_ns)}, rejected {len(self.rejected_at_ns)}, expired "
                f"{len(self.expired_at_ns)}, failed {len(self.failed_at_ns)}, cancelled "
                f"{self.cancelled}."
            )


def _ended_probes(batch: Batch) -> list[Nanoseconds]:
    """List the deadlines of the probes that a batch completes.

    Nobody is answered by them, so their state is not ``ANSWERED``.
    """
    requests = [piece.request for piece in batch.pieces]
    return [r.deadline_at_ns for r in requests if r.is_probe and not r.unanswered_rows]
