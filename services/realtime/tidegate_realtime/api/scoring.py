"""One prediction between any two transports: from a question to its one ending, counted once.

HTTP and gRPC differ in how a question is read, how an answer is written and how it shows that the
caller left. Everything between is here, so that deadlines, poison rows, metrics and bugs are the
same whichever way somebody asks.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

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
from tidegate_realtime.api.metrics import UNKNOWN, EndedKey, GatewayMetrics, OutcomeLabel
from tidegate_realtime.api.poison import PoisonInputError
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.served import Catalogue, ServedVersion
from tidegate_realtime.api.slow_reading import SlowReader
from tidegate_realtime.api.tracing import Took
from tidegate_realtime.api.wishes import NORMAL, Deadline, Wishes, wishes_of
from tidegate_realtime.runtime.outcomes import Answered, Failed, Rejected
from tidegate_realtime.runtime.ticket import Ticket


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


class Scored(NamedTuple):
    """What became of one question."""

    ending: Ending
    request_id: str
    served: ServedVersion | None
    """The version that was meant; there is one whenever the question was answered."""


class _Call:
    """What becomes known of one question on its way."""

    __slots__ = (
        "arrived_at_ns",
        "deadline_at_ns",
        "reading_ns",
        "request_id",
        "served",
        "submitted_at_ns",
    )

    def __init__(self, *, request_id: str, began_at_ns: Nanoseconds) -> None:
        self.request_id = request_id
        self.arrived_at_ns = began_at_ns
        """When its last byte came, as soon as that is known."""
        self.submitted_at_ns = began_at_ns
        """When it was decoded, likewise."""
        self.reading_ns = 0
        """Of this, if it is slow to read: what the scheduler need not reckon with any more."""
        self.deadline_at_ns: Nanoseconds | None = None
        self.served: ServedVersion | None = None

    @property
    def allowed_ns(self) -> int | None:
        """From its last byte to its deadline, as soon as both are known."""
        at_ns = self.deadline_at_ns
        return None if at_ns is None else at_ns - self.arrived_at_ns


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

    async def score(self, question: Question) -> Scored:
        """Bring one question to its end; never raises what a caller did.

        Cancelling it counts as the caller leaving: what waits in the queue is never executed.
        """
        call = _Call(
            request_id=self._ids.choose(question.given_id), began_at_ns=question.began_at_ns
        )
        model = question.model if self._catalogue.serves(question.model) else UNKNOWN
        self._metrics.arrived(model)
        ending = CALLER_LEFT
        try:
            ending = await self._score(question, call)
        except TidegateError as error:
            ending = ending_of_error(error, self._draw)
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id=call.request_id)
            ending = BUG
        finally:  # a server that gives a request up cancels this task
            self._count(model, call, ending)
            if call.served is not None:
                call.served.use.end()
        return Scored(ending, call.request_id, call.served)

    async def _score(self, question: Question, call: _Call) -> Ending:
        principal = question.principal()
        call.served = served = self._catalogue.find(question.model, question.version)
        served.use.begin(question.began_at_ns)  # it is bound: whatever moves, this one answers
        self._catalogue.readiness.check()
        named = question.deadline()
        await question.read()
        call.arrived_at_ns = self._clock.now_ns()
        refused = None
        if not question.may_wish():
            refused = self._refuse_unread(question, served, named, call, principal)
        if refused is not None:
            return ending_of_outcome(refused, self._draw)
        if served.model.is_slow_to_read:  # others must be answered meanwhile
            latest_ns = call.deadline_at_ns or served.latest_ns(named, question.began_at_ns)
            read = await self._slow_reader.read(
                question, served, arrived_at_ns=call.arrived_at_ns, latest_ns=latest_ns
            )
            if not isinstance(read, Asked):
                return ending_of_outcome(read, self._draw)
            asked = read
            call.reading_ns = self._clock.now_ns() - call.arrived_at_ns
        else:
            asked = question.decode(served)
        if asked.id:
            call.request_id = self._ids.choose(question.given_id, asked.id)
        wishes = wishes_of(asked.parameters, named)
        if wishes.deadline is not None:
            served.check_possible(wishes.deadline, certainly=True)
        outcome = await self._submit(question, call, asked, wishes, principal)
        if isinstance(outcome, Answered):
            return self._answer(question, call, asked, outcome)
        self._check_caller(served, asked, wishes, outcome)
        return ending_of_outcome(outcome, self._draw)

    def _submit(
        self,
        question: Question,
        call: _Call,
        asked: Asked,
        wishes: Wishes,
        principal: Principal,
    ) -> Ticket:
        served, arrived_at_ns = call.served, call.arrived_at_ns
        assert served is not None, "it is bound"
        call.submitted_at_ns = self._clock.now_ns()
        call.deadline_at_ns = served.deadline_at_ns(
            wishes.deadline, began_at_ns=question.began_at_ns, arrived_at_ns=arrived_at_ns
        )
        served.poison.check(asked.inputs, call.submitted_at_ns)
        ticket = served.driver.submit(
            asked.inputs,
            rows=asked.rows,
            deadline_at_ns=call.deadline_at_ns,
            arrived_at_ns=arrived_at_ns,
            priority=max(wishes.priority, principal.best_priority),
        )
        question.on_departure(ticket.cancel)
        return ticket

    def _answer(self, question: Question, call: _Call, asked: Asked, outcome: Answered) -> Ending:
        served = call.served
        assert served is not None, "it is bound"
        answer = question.encode(served, asked, outcome.outputs, request_id=call.request_id)
        total_ns = self._clock.now_ns() - call.arrived_at_ns
        decode_ns = call.submitted_at_ns - call.arrived_at_ns
        queue_ns = outcome.queued_ns - decode_ns  # it counts waiting from the arrival
        outside_ns = total_ns - queue_ns - outcome.executed_ns - call.reading_ns
        served.driver.on_reply(outside_ns)
        tag = served.response_tag
        self._metrics.stages[tag.model_name, tag.model_version].on_answer(
            decode_ns=decode_ns,
            queue_ns=queue_ns,
            execute_ns=outcome.executed_ns,
            total_ns=total_ns,
        )
        if served.measured is not None and served.measured.stage_times is not None:
            encode_ns = total_ns - outcome.queued_ns - outcome.executed_ns
            served.measured.stage_times.on_answer(
                Took(call.arrived_at_ns, decode_ns, queue_ns, outcome.executed_ns, encode_ns)
            )
        return Ending(OutcomeLabel.ANSWERED, answer)

    def _refuse_unread(
        self,
        question: Question,
        served: ServedVersion,
        named: Deadline | None,
        call: _Call,
        principal: Principal,
    ) -> Rejected | None:
        """Refuse under overload before decoding, which is most of what a refusal costs."""
        if named is not None:
            served.check_possible(named, certainly=True)
        arrived_at_ns = call.arrived_at_ns
        call.deadline_at_ns = served.deadline_at_ns(
            named, began_at_ns=question.began_at_ns, arrived_at_ns=arrived_at_ns
        )
        refused = served.driver.refuse_unread(
            deadline_at_ns=call.deadline_at_ns,
            arrived_at_ns=arrived_at_ns,
            priority=max(NORMAL, principal.best_priority),
        )
        if refused is not None and named is not None:
            served.check_possible(named)
        return refused

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

    def _count(self, model: str, call: _Call, ending: Ending) -> None:
        served = call.served
        version = UNKNOWN if served is None else served.response_tag.model_version
        key = EndedKey(model, version, ending.outcome, ending.reason)
        took_ns = self._clock.now_ns() - call.arrived_at_ns
        self._metrics.finished(key, took_ns=took_ns)
        if served is not None:
            is_good = kept_objective(
                ending,
                took_ns=took_ns,
                allowed_ns=call.allowed_ns,
                slo_ns=served.slo_ns,
            )
            if is_good is not None:
                self._metrics.judged(model, version, is_good=is_good)
