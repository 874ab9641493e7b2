"""One prediction, from its headers to its reply, and exactly one count of how it ended."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from tidegate.clock import Clock
from tidegate.errors import TidegateError
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
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.forms import Asked, Form, InferForm, PredictForm
from tidegate_realtime.api.guards import BODY_LIMIT_BYTES, check_body_headers, check_layout
from tidegate_realtime.api.metrics import UNKNOWN, EndedKey, GatewayMetrics, OutcomeLabel
from tidegate_realtime.api.poison import PoisonInputError
from tidegate_realtime.api.replies import CONTENT_TYPE, Problem, Reply, problem_reply
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.routing import Action, Route
from tidegate_realtime.api.served import Catalogue, ServedVersion
from tidegate_realtime.api.wishes import DEADLINE_HEADER, Wishes, header_deadline, wishes_of
from tidegate_realtime.runtime.outcomes import Answered, Failed, Rejected

FORMS: Final[Mapping[Action, Form]] = {Action.INFER: InferForm(), Action.PREDICT: PredictForm()}


class _Call:
    """What becomes known of one request on its way."""

    __slots__ = ("arrived_at_ns", "given_id", "request_id", "served")

    def __init__(self, *, given_id: str | None, request_id: str, began_at_ns: Nanoseconds) -> None:
        self.given_id = given_id
        """Of the header, as it came."""
        self.request_id = request_id
        self.arrived_at_ns = began_at_ns
        """When its last byte came, as soon as that is known."""
        self.served: ServedVersion | None = None


class Predictor:
    """Answers ``infer`` and ``:predict``."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        metrics: GatewayMetrics,
        ids: RequestIds,
        clock: Clock,
        draw: Draw,
        bugs: BugLog,
    ) -> None:
        """Put the parts together.

        Args:
            catalogue: What is served, and whether new work is taken.
            metrics: Told of each request's arrival and of its one ending.
            ids: Names requests.
            clock: The one that the drivers read too.
            draw: For the jitter of Retry-After.
            bugs: Told of what nobody expected.
        """
        self._catalogue = catalogue
        self._metrics = metrics
        self._ids = ids
        self._clock = clock
        self._draw = draw
        self._bugs = bugs

    async def answer(self, exchange: Exchange, route: Route) -> Reply:
        """Answer one request; never raises what a caller did.

        Cancelling it counts as the caller leaving: what waits in the queue is never executed.
        """
        given_id = exchange.header("x-request-id")
        call = _Call(
            given_id=given_id,
            request_id=self._ids.choose(given_id),
            began_at_ns=exchange.began_at_ns,
        )
        model = str(route.model) if self._catalogue.numbers(str(route.model)) else UNKNOWN
        self._metrics.arrived(model)
        ending = CALLER_LEFT
        try:
            ending = await self._end(exchange, route, call)
        finally:  # a server that gives a request up cancels this task
            self._count(model, call, ending)
        return _reply(call, ending)

    async def _end(self, exchange: Exchange, route: Route, call: _Call) -> Ending:
        try:
            return await self._score(exchange, route, call)
        except TidegateError as error:
            return ending_of_error(error, self._draw)
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id=call.request_id)
            return BUG

    async def _score(self, exchange: Exchange, route: Route, call: _Call) -> Ending:
        call.served = served = self._catalogue.find(str(route.model), route.version)
        self._catalogue.readiness.check()
        of_header = header_deadline(exchange.header(DEADLINE_HEADER))
        check_body_headers(exchange)
        body = await exchange.read(BODY_LIMIT_BYTES)
        call.arrived_at_ns = arrived_at_ns = self._clock.now_ns()
        check_layout(exchange, body)
        form = FORMS[route.action]
        asked = form.decode(body, served)
        if asked.id:
            call.request_id = self._ids.choose(call.given_id, asked.id)
        wishes = wishes_of(asked.parameters, of_header)
        if wishes.deadline is not None:
            served.check_possible(wishes.deadline, certainly=True)
        submitted_at_ns = self._clock.now_ns()
        served.poison.check(asked.inputs, submitted_at_ns)
        ticket = served.driver.submit(
            asked.inputs,
            rows=asked.rows,
            deadline_at_ns=served.deadline_at_ns(
                wishes.deadline,
                began_at_ns=exchange.began_at_ns,
                arrived_at_ns=arrived_at_ns,
            ),
            arrived_at_ns=arrived_at_ns,
            priority=wishes.priority,
        )
        exchange.on_departure(partial(served.driver.cancel, ticket))
        outcome = await ticket
        if not isinstance(outcome, Answered):
            self._check_caller(served, asked, wishes, outcome)
            return ending_of_outcome(outcome, self._draw)
        answer = form.encode(served, asked, outcome.outputs, request_id=call.request_id)
        scheduled_ns = outcome.queued_ns + outcome.executed_ns - (submitted_at_ns - arrived_at_ns)
        served.driver.on_reply(self._clock.now_ns() - arrived_at_ns - scheduled_ns)
        return Ending(OutcomeLabel.ANSWERED, answer)

    def _check_caller(
        self, served: ServedVersion, asked: Asked, wishes: Wishes, outcome: Unanswered
    ) -> None:
        """Tell a caller whose request it is that is to blame.

        Raises:
            DeadlineTooShortError: It asked for an answer sooner than any could be.
            PoisonInputError: One of its rows makes the model fail; it is remembered.
        """
        match outcome:
            case Rejected(code="deadline_unreachable") if wishes.deadline is not None:
                served.check_possible(wishes.deadline)
            case Failed(poison_row=int(row)):
                served.poison.remember(asked.inputs, row, self._clock.now_ns())
                raise PoisonInputError.of_row(row)
            case _:
                pass

    def _count(self, model: str, call: _Call, ending: Ending) -> None:
        served = call.served
        key = EndedKey(
            model=model,
            version=served.response_tag.model_version if served else UNKNOWN,
            outcome=ending.outcome,
            reason=ending.reason,
        )
        self._metrics.finished(key, took_ns=self._clock.now_ns() - call.arrived_at_ns)


def _reply(call: _Call, ending: Ending) -> Reply:
    if isinstance(ending.answer, Problem):
        return problem_reply(ending.answer, request_id=call.request_id)
    assert call.served is not None, "only a served version answers"
    headers = [CONTENT_TYPE, *call.served.headers, ("x-request-id", call.request_id)]
    return Reply(200, headers, ending.answer)
