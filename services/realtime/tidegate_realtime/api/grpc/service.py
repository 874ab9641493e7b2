"""The methods of ``inference.GRPCInferenceService``, registered by name.

Each handler takes and returns bytes: what cannot be read is then ours to refuse, with a sentence.
To the library each is one of a stream, which is the same on the wire: it is called when the
metadata is there, and the message comes when it asks for it. Without a key it does not ask.
Every other method of the service, streams and repository control among them, is UNIMPLEMENTED.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import grpc

from tidegate.errors import TidegateError
from tidegate.oip.errors import MalformedRequestError
from tidegate.units import NS_PER_SECOND
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.grpc.calls import AUTHORIZATION, REQUEST_ID, Call, Context, parse
from tidegate_realtime.api.grpc.lookups import LOOKUPS, Lookup
from tidegate_realtime.api.grpc.question import GrpcQuestion
from tidegate_realtime.api.replies import Problem
from tidegate_realtime.api.routing import Action
from tidegate_realtime.api.scopes import SCOPES
from tidegate_realtime.api.sweeper import UPLOAD_LIMIT_NS

SERVICE: Final = "inference.GRPCInferenceService"
Behaviour: TypeAlias = Callable[[object, Context], Awaitable[bytes]]
UPLOAD_LIMIT_S: Final = UPLOAD_LIMIT_NS / NS_PER_SECOND
_LONGEST_LOOKUP_BYTES: Final = 16 << 10
"""Two names; everything else in it would be fields that nobody knows."""


def build_service(edge: Edge) -> grpc.GenericRpcHandler:
    """Return what a server registers: the same edge that answers over HTTP."""
    return grpc.method_handlers_generic_handler(SERVICE, InferenceService(edge).methods())


class InferenceService:
    """Answers every call; cancelling a handler, as gRPC does, counts as the caller leaving."""

    def __init__(self, edge: Edge) -> None:
        """Take what answers over HTTP, too."""
        self._scorer = edge.scorer
        self._metrics = edge.metrics
        self._lookups = edge.lookups
        self._access = edge.policy.access
        self._bodies = edge.sweeper.bodies
        self._ids = edge.ids
        self._clock = edge.clock
        self._bugs = edge.bugs

    def methods(self) -> "dict[str, grpc.RpcMethodHandler[bytes, bytes]]":
        """Return what is served, by name."""
        behaviours: dict[str, Behaviour] = {
            name: partial(self._look_up, lookup) for name, lookup in LOOKUPS.items()
        }
        behaviours["ModelInfer"] = self._infer
        return {
            name: grpc.stream_unary_rpc_method_handler(behaviour)
            for name, behaviour in behaviours.items()
        }

    async def _infer(self, _: object, context: Context) -> bytes:
        call = Call(context, began_at_ns=self._clock.now_ns())
        try:
            self._admit(call, Action.INFER)
            raw = await call.read(UPLOAD_LIMIT_S)
            question = GrpcQuestion(raw, call, access=self._access, bodies=self._bodies)
            del raw  # the question lets go of it as soon as it can
        except TidegateError as error:
            return self._refuse(call, Problem.of_error(error))
        try:
            scored = await self._scorer.score(question)
        finally:
            question.let_go()
        answer = scored.ending.answer
        if isinstance(answer, Problem):
            return call.refuse(answer, request_id=scored.request_id)
        assert scored.served is not None, "only a served version answers"
        await call.announce(scored.served.headers, request_id=scored.request_id)
        return answer

    def _admit(self, call: Call, action: Action) -> None:
        """Look at the metadata alone: whoever may not ask is not listened to."""
        call.check_metadata()
        self._access.authorize(call.header(AUTHORIZATION), SCOPES[action])

    async def _look_up(self, lookup: Lookup, _: object, context: Context) -> bytes:
        call = Call(context, began_at_ns=self._clock.now_ns())
        try:
            self._admit(call, lookup.action)
            raw = b"" if lookup.is_empty else await call.read(UPLOAD_LIMIT_S)
            return self._looked_up(lookup, raw, call)
        except TidegateError as error:
            problem = Problem.of_error(error)
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id="")
            problem = Problem.of_bug()
        return self._refuse(call, problem)

    def _looked_up(self, lookup: Lookup, raw: bytes, call: Call) -> bytes:
        if len(raw) > _LONGEST_LOOKUP_BYTES:
            raise MalformedRequestError(
                f"The message has {len(raw)} bytes; up to {_LONGEST_LOOKUP_BYTES} are accepted."
            )
        route = lookup.route(parse(raw, lookup.request))
        shown = call.header(AUTHORIZATION)
        principal = self._access.authorize(shown, SCOPES[route.action], route.model)
        return lookup.write(self._lookups.answer(route, models=principal.models).body)

    def _refuse(self, call: Call, problem: Problem) -> bytes:
        """Refuse what is not counted as a prediction."""
        self._metrics.refused(problem.code)
        return call.refuse(problem, request_id=self._ids.choose(call.header(REQUEST_ID)))
