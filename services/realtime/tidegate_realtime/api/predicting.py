"""One prediction over HTTP: its exchange is the question, and its ending becomes the reply."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from tidegate.inference.arrays import Tensors
from tidegate.keys.access import Access, Principal
from tidegate.oip.layout import JSON_LENGTH_HEADER, json_length
from tidegate.units import Nanoseconds
from tidegate_realtime.api.deflating import accepted_encoding, deflated
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.forms import Asked, Form, InferForm, PredictForm
from tidegate_realtime.api.guards import BODY_LIMIT_BYTES, check_body_headers
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.replies import (
    BINARY_CONTENT_TYPE,
    CONTENT_TYPE,
    Problem,
    Reply,
    problem_reply,
)
from tidegate_realtime.api.routing import Action, Route
from tidegate_realtime.api.scopes import SCOPES
from tidegate_realtime.api.scoring import Scored, Scorer
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.api.wishes import DEADLINE_HEADER, Deadline, header_deadline

FORMS: Final[Mapping[Action, Form]] = {Action.INFER: InferForm(), Action.PREDICT: PredictForm()}
_O: Final = ord("o")


class HttpQuestion:
    """A question in the body of an exchange; see ``Question`` for what each method is for."""

    __slots__ = (
        "_access",
        "_body",
        "_exchange",
        "_form",
        "_scope",
        "began_at_ns",
        "given_id",
        "json_bytes",
        "model",
        "version",
    )

    def __init__(self, exchange: Exchange, route: Route, access: Access) -> None:
        self._access = access
        self._exchange = exchange
        self._scope = SCOPES[route.action]
        self._form = FORMS[route.action]
        self._body = b""
        self.json_bytes: int | None = None
        """Of the reply, if bytes of tensors follow in it; known once it is written."""
        self.model = route.model or ""
        self.version = route.version
        self.given_id = exchange.header("x-request-id")
        self.began_at_ns: Nanoseconds = exchange.began_at_ns

    def principal(self) -> Principal:
        """Look at the key that came with it."""
        shown = self._exchange.header("authorization") if self._access.asks else None
        return self._access.authorize(shown, self._scope, self.model)

    def deadline(self) -> Deadline | None:
        """Read the header that names one."""
        said = self._exchange.header(DEADLINE_HEADER)
        return None if said is None else header_deadline(said)

    async def read(self) -> None:
        """Take the body in, unless its headers alone say that it is not wanted."""
        check_body_headers(self._exchange)
        self._body = await self._exchange.read(BODY_LIMIT_BYTES)

    @property
    def body_bytes(self) -> int:
        """Of what was read, once its compression was undone."""
        return len(self._body)

    def hand_over(self) -> Callable[[], None]:
        """Take the body out of what the exchange gives back when it ends."""
        return self._exchange.hand_over()

    def may_wish(self) -> bool:
        """Look for the two words."""
        body = self._body  # numbers have no "o", and a byte is found in a tenth of the time
        return _O in body and (b'"timeout"' in body or b'"priority"' in body)

    def decode(self, served: ServedVersion) -> Asked:
        """Read the body in the form that the path names."""
        said = self._exchange.header(JSON_LENGTH_HEADER)
        if said is None:
            return self._form.decode(self._body, served)
        values = self._exchange.header_values(JSON_LENGTH_HEADER)
        json_bytes = json_length(values, len(self._body))
        return self._form.decode(self._body, served, json_bytes=json_bytes)

    def on_departure(self, call: Callable[[], None]) -> None:
        """Pass it on to the connection."""
        self._exchange.on_departure(call)

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> bytes:
        """Write the reply's body in the form of the question's."""
        reply = self._form.encode(served, asked, outputs, request_id=request_id)
        self.json_bytes = reply.json_bytes
        return reply.body


class Predictor:
    """Answers ``infer`` and ``:predict``."""

    def __init__(self, scorer: Scorer, policy: Policy) -> None:
        self._scorer = scorer
        self._access = policy.access
        self._compresses = policy.compresses_replies

    async def answer(self, exchange: Exchange, route: Route) -> Reply:
        """Answer one request; never raises what a caller did.

        Cancelling it counts as the caller leaving: what waits in the queue is never executed.
        """
        question = HttpQuestion(exchange, route, self._access)
        reply = _reply(await self._scorer.score(question), json_bytes=question.json_bytes)
        if not self._compresses or reply.status != HTTPStatus.OK:
            return reply
        return await deflated(reply, accepted_encoding(exchange.header("accept-encoding")))


def _reply(scored: Scored, *, json_bytes: int | None) -> Reply:
    answer = scored.ending.answer
    if isinstance(answer, Problem):
        return problem_reply(answer, request_id=scored.request_id)
    assert scored.served is not None, "only a served version answers"
    headers = [CONTENT_TYPE, *scored.served.headers, ("x-request-id", scored.request_id)]
    if json_bytes is not None:
        headers[:1] = [BINARY_CONTENT_TYPE, (JSON_LENGTH_HEADER, str(json_bytes))]
    return Reply(200, headers, answer)
