"""One prediction between any two transports: from a question to its one ending, counted once.

HTTP and gRPC differ in how a question is read, how an answer is written and how it shows that the
caller left. Everything between is here, so that deadlines, poison rows, metrics and bugs are the
same whichever way somebody asks.
"""

from collections.abc import Callable
from typing import Final, Protocol

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.inference.arrays import Tensors
from tidegate.keys.access import Principal
from tidegate.units import Nanoseconds
from tidegate_realtime.api.bug_log import BugLog
from tidegate_realtime.api.endings import (
    BUG,
    CALLER_LEFT,
    Draw,
    Ending,
    Unanswered,
    ending_of_error,
    ending_of_outcome,
)
from tidegate_realtime.api.forms import Asked
from tidegate_realtime.api.judging import kept_objective
from tidegate_realtime.api.metrics import UNKNOWN, GatewayMetrics, OutcomeLabel
from tidegate_realtime.api.poison import PoisonInputError
from tidegate_realtime.api.quotas import Quotas
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.served import Catalogue, ServedVersion
from tidegate_realtime.api.slow_reading import SlowReader
from tidegate_realtime.api.spending import Stages
from tidegate_realtime.api.tracing import Took
from tidegate_realtime.api.wishes import NORMAL, Deadline, Wishes, wishes_of
from tidegate_realtime.runtime.outcomes import Answered, Failed, Rejected
from tidegate_realtime.runtime.reading import NotRead
from tidegate_realtime.runtime.ticket import Ticket

_ANSWERED: Final = OutcomeLabel.ANSWERED
"""A local name, because looking a member up in its class takes four times as long."""


class Question(Protocol):
    """One request for a prediction, as its transport has it.

    The methods are called once each, in the order in which they stand here; ``on_departure`` is
    called twice where reading is slow.
    """

    @property
    def model(self) -> str:
        """The name as it was asked for."""
        ...

    @property
    def version(self) -> str | None:
        """A number or an alias; ``None`` leaves the choice to the server."""
        ...

    @property
    def given_id(self) -> str | None:
        """``X-Request-Id`` as it came."""
        ...

    @property
    def began_at_ns(self) -> Nanoseconds:
        """When the headers had been read; a deadline that the caller names runs from here."""
        ...

    def principal(self) -> Principal:
        """Say who asks.

        Raises:
            UnauthenticatedError, ForbiddenError: Somebody who may not.
        """
        ...

    def deadline(self) -> Deadline | None:
        """Return the shortest deadline named outside the body.

        Raises:
            BadOptionError: It cannot be meant.
        """
        ...

    async def read(self) -> None:
        """Wait for the last byte; the objective runs from then on.

        Raises:
            RequestRejectedError: It will not come, or there are too many before it.
        """
        ...

    def may_wish(self) -> bool:
        """Whether the body may name a deadline or a priority, as far as a glance tells."""
        ...

    @property
    def body_bytes(self) -> int:
        """How long what was read is: what decoding goes by."""
        ...

    def decode(self, served: ServedVersion) -> Asked:
        """Make tensors of what came; on another thread if that is slow.

        Raises:
            RequestRejectedError: It cannot be read, or does not fit the model.
        """
        ...

    def hand_over(self) -> Callable[[], None]:
        """Return what must be called once nothing holds the body, instead of the question's end.

        Only where the question ends while it is still being decoded.
        """
        ...

    def on_departure(self, call: Callable[[], None]) -> None:
        """Say what to do if the caller leaves, or has left already."""
        ...

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> bytes:
        """Write the answer.

        Raises:
            BackendError: It cannot be said in the form that was asked for.
        """
        ...


class Scored:
    """What becomes known of one question on its way, and at last how it ended."""

    __slots__ = (
        "arrived_at_ns",
        "deadline_at_ns",
        "ending",
        "executed_ns",
        "queued_ns",
        "reading_ns",
        "request_id",
        "served",
        "submitted_at_ns",
    )

    def __init__(self, request_id: str, began_at_ns: Nanoseconds) -> None:
        self.request_id = request_id
        self.ending = CALLER_LEFT
        """Unless another one is known: a server that gives a request up cancels its task."""
        self.served: ServedVersion | None = None
        """The version that is meant; there is one whenever the question was answered."""
        self.arrived_at_ns = began_at_ns
        """When its last byte came, as soon as that is known."""
        self.submitted_at_ns = began_at_ns
        """When it was decoded, likewise."""
        self.reading_ns = 0
        """Of this, if it is slow to read: what the scheduler need not reckon with any more."""
        self.deadline_at_ns: Nanoseconds | None = None
        self.queued_ns = 0
        """From its last byte to its batch, if it is answered, as ``Answered`` says."""
        self.executed_ns = 0
        """From there to the model's answer, likewise."""


class Scorer:
    """Takes questions to the drivers and brings their endings back."""

    def __init__(  # noqa: PLR0913 - one of each part, and named where they are wired
        self,
        *,
        catalogue: Catalogue,
        metrics: GatewayMetrics,
        ids: RequestIds,
        clock: Clock,
        draw: Draw,
        bugs: BugLog,
        slow_reader: SlowReader,
    ) -> None:
        """Put the parts together.

        Args:
            catalogue: What is served, and whether new work is taken.
            metrics: Told of each request's arrival and of its one ending.
            ids: Names requests.
            clock: The one that the drivers read too.
            draw: For the jitter of Retry-After.
            bugs: Told of what nobody expected.
            slow_reader: For models whose questions the loop must not decode.
        """
        self._catalogue = catalogue
        self._metrics = metrics
        self._ids = ids
        self._clock = clock
        self._draw = draw
        self._bugs = bugs
        self._slow_reader = slow_reader
        self._quotas = Quotas()

    async def score(self, question: Question) -> Scored:
        """Bring one question to its end; never raises what a caller did.

        Cancelling it counts as the caller leaving: what waits in the queue is never executed.
        """
        scored = Scored(self._ids.choose(question.given_id), question.began_at_ns)
        model = question.model if self._catalogue.serves(question.model) else UNKNOWN
        self._metrics.arrived(model)
        try:
            scored.ending = await self._score(question, scored)
        except TidegateError as error:
            scored.ending = ending_of_error(error, self._draw)
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id=scored.request_id)
            scored.ending = BUG
        finally:
            self._count(model, scored)
        return scored

    async def _score(self, question: Question, scored: Scored) -> Ending:
        principal = question.principal()
        scored.served = served = self._catalogue.find(question.model, question.version)
        served.use.begin(question.began_at_ns)  # it is bound: whatever moves, this one answers
        self._catalogue.readiness.check()
        self._quotas.check(principal, question.began_at_ns)
        named = question.deadline()
        await question.read()
        scored.arrived_at_ns = self._clock.now_ns()
        if not question.may_wish():
            self._set_deadline(question, scored, served, named)
            refused = self._refuse_unread(scored, served, named, principal)
            if refused is not None:
                return ending_of_outcome(refused, self._draw)
        if served.is_slow_to_read:  # others must be answered meanwhile
            read = await self._read_slowly(question, scored, served, named)
            if not isinstance(read, Asked):
                return ending_of_outcome(read, self._draw)
            asked = read
        else:
            asked = question.decode(served)
        if asked.id:
            scored.request_id = self._ids.choose(question.given_id, asked.id)
        wishes = wishes_of(asked.parameters, named)
        if scored.deadline_at_ns is None or wishes.deadline is not named:
            self._set_deadline(question, scored, served, wishes.deadline)
        priority = max(wishes.priority, principal.best_priority)
        self._quotas.take(principal, asked.rows, scored.arrived_at_ns)
        outcome = await self._submit(question, scored, served, asked, priority)
        if isinstance(outcome, Answered):
            scored.queued_ns, scored.executed_ns = outcome.queued_ns, outcome.executed_ns
            outputs, request_id = outcome.outputs, scored.request_id
            return Ending(_ANSWERED, question.encode(served, asked, outputs, request_id=request_id))
        self._check_caller(served, asked, wishes, outcome)
        return ending_of_outcome(outcome, self._draw)

    def _set_deadline(
        self, question: Question, scored: Scored, served: ServedVersion, named: Deadline | None
    ) -> None:
        """Take what the caller allows, as far as it is known by now.

        Raises:
            DeadlineTooShortError: It must be in another unit.
        """
        if named is not None:
            served.check_possible(named, certainly=True)
        scored.deadline_at_ns = served.deadline_at_ns(
            named, began_at_ns=question.began_at_ns, arrived_at_ns=scored.arrived_at_ns
        )

    def _refuse_unread(
        self, scored: Scored, served: ServedVersion, named: Deadline | None, principal: Principal
    ) -> Rejected | None:
        """Refuse under overload before decoding, which is most of what a refusal costs."""
        assert scored.deadline_at_ns is not None, "it was set"
        refused = served.driver.refuse_unread(
            deadline_at_ns=scored.deadline_at_ns,
            arrived_at_ns=scored.arrived_at_ns,
            priority=max(NORMAL, principal.best_priority),
        )
        if refused is not None and named is not None:
            served.check_possible(named)
        return refused

    async def _read_slowly(
        self, question: Question, scored: Scored, served: ServedVersion, named: Deadline | None
    ) -> Asked | NotRead:
        """Decode on another thread, while others are answered."""
        arrived_at_ns = scored.arrived_at_ns
        latest_ns = scored.deadline_at_ns or served.latest_ns(named, question.began_at_ns)
        read = await self._slow_reader.read(
            question, served, arrived_at_ns=arrived_at_ns, latest_ns=latest_ns
        )
        scored.reading_ns = self._clock.now_ns() - arrived_at_ns
        return read

    def _submit(
        self,
        question: Question,
        scored: Scored,
        served: ServedVersion,
        asked: Asked,
        priority: int,
    ) -> Ticket:
        assert scored.deadline_at_ns is not None, "it was set"
        scored.submitted_at_ns = self._clock.now_ns()
        served.poison.check(asked.inputs, scored.submitted_at_ns)
        ticket = served.driver.submit(
            asked.inputs,
            rows=asked.rows,
            deadline_at_ns=scored.deadline_at_ns,
            arrived_at_ns=scored.arrived_at_ns,
            priority=priority,
        )
        question.on_departure(ticket.cancel)
        return ticket

    def _check_caller(
        self, served: ServedVersion, asked: Asked, wishes: Wishes, outcome: Unanswered
    ) -> None:
        """Tell a caller whose request it is that is to blame.

        Raises:
            DeadlineTooShortError: It asked for an answer sooner than any could be.
            PoisonInputError: One of its rows makes the model fail; it is remembered.
        """
        match outcome:
            case Rejected(code="deadline_unreachable"):
                served.check_caller(wishes.deadline, asked.inputs)
            case Failed(poison_row=int(row)):
                served.poison.remember(asked.inputs, row, self._clock.now_ns())
                raise PoisonInputError.of_row(row)
            case _:
                pass

    def _count(self, model: str, scored: Scored) -> None:
        ending, served = scored.ending, scored.served
        took_ns = self._clock.now_ns() - scored.arrived_at_ns
        if served is None:
            self._metrics.ended_without_version(model, ending.outcome, ending.reason)
            return
        served.use.end()
        counts = self._metrics.versions[served.label]
        if ending.outcome is _ANSWERED:
            counts.on_answer(took_ns)
            _count_stages(scored, served, counts.stages, took_ns)
        else:
            counts.on_end(ending.outcome, ending.reason, took_ns=took_ns)
        at_ns = scored.deadline_at_ns
        allowed_ns = None if at_ns is None else at_ns - scored.arrived_at_ns
        is_good = kept_objective(
            ending, took_ns=took_ns, allowed_ns=allowed_ns, slo_ns=served.slo_ns
        )
        if is_good is not None:
            counts.slo.requests += 1
            counts.slo.good += is_good


def _count_stages(scored: Scored, served: ServedVersion, stages: Stages, took_ns: int) -> None:
    """Say where the time of an answer went; the scheduler learns what it spent elsewhere."""
    decode_ns = scored.submitted_at_ns - scored.arrived_at_ns
    execute_ns = scored.executed_ns
    queue_ns = scored.queued_ns - decode_ns  # it counts waiting from the arrival
    stages.on_answer(
        decode_ns=decode_ns, queue_ns=queue_ns, execute_ns=execute_ns, total_ns=took_ns
    )
    served.driver.on_reply(took_ns - queue_ns - execute_ns - scored.reading_ns)
    if served.measured is not None and served.measured.stage_times is not None:
        encode_ns = took_ns - scored.queued_ns - execute_ns
        took = Took(scored.arrived_at_ns, decode_ns, queue_ns, execute_ns, encode_ns)
        served.measured.stage_times.on_answer(took)
