"""The public listener as one function of a request, without a framework and without a server."""

from tidegate.errors import TidegateError
from tidegate_realtime.api.bug_log import BugLog
from tidegate_realtime.api.errors import MethodNotAllowedError, RouteNotFoundError
from tidegate_realtime.api.exchange import Exchange
from tidegate_realtime.api.guards import check_host, check_path, check_single
from tidegate_realtime.api.lookups import Lookups
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.predicting import FORMS, Predictor
from tidegate_realtime.api.replies import Problem, Reply, problem_reply
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.routing import METHODS, Route, match_route
from tidegate_realtime.api.scopes import SCOPES, check_scopes


class Endpoint:
    """Answers every public request."""

    def __init__(
        self,
        *,
        predictor: Predictor,
        lookups: Lookups,
        policy: Policy,
        metrics: GatewayMetrics,
        ids: RequestIds,
        bugs: BugLog,
    ) -> None:
        check_scopes()
        self._predictor = predictor
        self._lookups = lookups
        self._policy = policy
        self._metrics = metrics
        self._ids = ids
        self._bugs = bugs

    async def answer(self, exchange: Exchange) -> Reply:
        """Answer one request; whatever goes wrong is a reply, too.

        Status 499 means that the caller has left: such a reply is not to be sent.
        Cancelling it counts as the caller leaving.
        """
        try:
            if self._policy.hosts:
                check_host(", ".join(exchange.header_values("host")), self._policy.hosts)
            check_single(exchange.times)
            route = _route(exchange)
            if route.action in FORMS:
                return await self._predictor.answer(exchange, route)
            shown = exchange.header("authorization")
            principal = self._policy.access.authorize(shown, SCOPES[route.action], route.model)
            return self._lookups.answer(route, models=principal.models)
        except TidegateError as error:
            self._metrics.refused(error.code)
            problem = Problem.of_error(error)
        except Exception as error:  # a bug of ours, which must not become the caller's stack trace
            self._bugs.report(error, request_id="")
            problem = Problem.of_bug()
        request_id = self._ids.choose(exchange.header("x-request-id"))
        return problem_reply(problem, request_id=request_id)


def _route(exchange: Exchange) -> Route:
    check_path(exchange.path)
    route = match_route(exchange.path)
    if route is None:
        raise RouteNotFoundError(
            "Nothing is served at this path. GET /v1/models lists the models; predictions are "
            "POST /v1/models/{name}:predict and POST /v2/models/{name}/infer."
        )
    allowed = METHODS[route.action]
    if exchange.method not in allowed:
        raise MethodNotAllowedError.of(exchange.method, allow=allowed)
    return route
