"""The methods of ``inference.GRPCInferenceService``, registered by name.

Each handler takes and returns bytes: what cannot be read is then ours to refuse, with a sentence.
Every other method of the service, streams and repository control among them, is UNIMPLEMENTED.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.keys.access import Access
from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate_realtime.api.bug_log import BugLog
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.grpc.calls import AUTHORIZATION, REQUEST_ID, Call, Context
from tidegate_realtime.api.grpc.lookups import LOOKUPS, Lookup
from tidegate_realtime.api.grpc.question import GrpcQuestion
from tidegate_realtime.api.lookups import Lookups
from tidegate_realtime.api.replies import Problem
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.scopes import SCOPES
from tidegate_realtime.api.scoring import Scorer

SERVICE: Final = "inference.GRPCInferenceService"
Behaviour: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]
_M = TypeVar("_M", bound=Message)


def build_service(edge: Edge) -> grpc.GenericRpcHandler:
    """Return what a server registers: the same edge that answers over HTTP."""
    service = InferenceService(
        scorer=edge.scorer,
        lookups=edge.lookups,
        access=edge.policy.access,
        ids=edge.ids,
        clock=edge.clock,
        bugs=edge.bugs,
    )
    return grpc.method_handlers_generic_handler(SERVICE, service.methods())


class InferenceService:
    """Answers every call; cancelling a handler, as gRPC does, counts as the caller leaving."""

    def __init__(
        self,
        *,
        scorer: Scorer,
        lookups: Lookups,
        access: Access,
        ids: RequestIds,
        clock: Clock,
        bugs: BugLog,
    ) -> None:
        """Take what answers over HTTP, too."""
        self._scorer = scorer
        self._lookups = lookups
        self._access = access
        self._ids = ids
        self._clock = clock
        self._bugs = bugs

    def methods(self) -> "dict[str, grpc.RpcMethodHandler[bytes, bytes]]":
        """Return what is served, by name."""
        behaviours: dict[str, Behaviour] = {
            name: partial(self._look_up, lookup) for name, lookup in LOOKUPS.items()
        }
        behaviours["ModelInfer"] = self._infer
        return {
            name: grpc.unary_unary_rpc_method_handler(behaviour)
            for name, behaviour in behaviours.items()
        }

    async def _infer(self, raw: bytes, context: Context) -> bytes:
        call = Call(context, began_at_ns=self._clock.now_ns())
        try:
            question = GrpcQuestion(_parse(raw, ModelInferRequest), call, self._access)
        except TidegateError as error:
            await self._refuse(call, Problem.of_error(error))
        scored = await self._scorer.score(question)
        answer = scored.ending.answer
        if isinstance(answer, Problem):
            await call.refuse(answer, request_id=scored.request_id)
        assert scored.served is not None, "only a served version answers"
        await call.announce(scored.served.headers, request_id=scored.request_id)
        return answer

    async def _look_up(self, lookup: Lookup, raw: bytes, context: Context) -> bytes:
        call = Call(context, began_at_ns=self._clock.now_ns())
        try:
            found = self._looked_up(lookup, raw, call)
        except TidegateError as error:
            await self._refuse(call, Problem.of_error(error))
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id="")
            await self._refuse(call, Problem.of_bug())
        return found

    def _looked_up(self, lookup: Lookup, raw: bytes, call: Call) -> bytes:
        route = lookup.route(_parse(raw, lookup.request))
        self._access.authorize(call.header(AUTHORIZATION), SCOPES[route.action], route.model)
        return lookup.write(self._lookups.answer(route).body)

    async def _refuse(self, call: Call, problem: Problem) -> NoReturn:
        await call.refuse(problem, request_id=self._ids.choose(call.header(REQUEST_ID)))


def _parse(raw: bytes, kind: type[_M]) -> _M:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise MalformedRequestError(
            f"The message is no {kind.DESCRIPTOR.name}: its bytes cannot be read as one."
        ) from error
