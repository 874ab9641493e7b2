"""Answers that need no model: what this server is, what it serves, and whether it is ready."""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from tidegate import __version__
from tidegate.errors import TidegateError
from tidegate.settings.loading import DEFAULT
from tidegate.tensors.signature import TensorSpec
from tidegate.units import ns_to_ms
from tidegate_realtime.api.caps import cap_numbers, caps_by_tokens
from tidegate_realtime.api.endings import Draw, ending_of_error
from tidegate_realtime.api.errors import NotReadyError
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.model_config import PLATFORM, model_config
from tidegate_realtime.api.model_statistics import model_statistics
from tidegate_realtime.api.replies import Problem, Reply, json_reply, problem_reply
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.routing import Action, Route
from tidegate_realtime.api.served import Catalogue, Offer, ServedVersion

EXTENSIONS: Final = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "parameters",
    "schedule_policy",
    "statistics",
)
"""Of the protocol; a client calls what stands here, so each must pass its tests."""
_SERVER: Final = {"name": "tidegate", "version": __version__, "extensions": EXTENSIONS}


Seen: TypeAlias = Callable[[str], bool]
"""Whether a list may name a model."""


class Lookups:
    """Everything but predictions."""

    def __init__(
        self, *, catalogue: Catalogue, metrics: GatewayMetrics, ids: RequestIds, draw: Draw
    ) -> None:
        self._catalogue = catalogue
        self._metrics = metrics
        self._ids = ids
        self._draw = draw
        self._answers: Mapping[Action, Callable[[Route], Reply]] = {
            Action.SERVER: lambda _: json_reply(200, _SERVER),
            Action.LIVE: lambda _: json_reply(200, self._health()),
            Action.READY: lambda _: self._ready(self._health()),
            Action.MODEL: lambda route: json_reply(200, self._metadata(route)),
            Action.MODEL_READY: self._model_ready,
            Action.MODEL_CONFIG: lambda route: json_reply(200, model_config(self._find(route))),
            Action.MODEL_STATISTICS: lambda route: self._statistics([self._find(route)]),
            Action.MODEL_V1: self._model_ready,
        }
        self._lists: Mapping[Action, Callable[[Seen], Reply]] = {
            Action.STATISTICS: self._all_statistics,
            Action.MODELS_V1: self._names,
        }

    @property
    def actions(self) -> AbstractSet[Action]:
        """What is answered here: all that is no prediction."""
        return self._answers.keys() | self._lists.keys()

    def answer(self, route: Route, *, models: Collection[str] | None = None) -> Reply:
        """Answer a route that is no prediction.

        Args:
            route: What is asked.
            models: The only ones that a list may name; ``None``: all. A model that the route names
                is answered: whoever asks for it has been let through.

        Raises:
            RequestRejectedError: There is no such model or version here.
        """
        if route.action in self._lists:
            return self._lists[route.action](lambda name: models is None or name in models)
        return self._answers[route.action](route)

    def _names(self, seen: Seen) -> Reply:
        return json_reply(200, {"models": list(filter(seen, self._catalogue.names))})

    def _all_statistics(self, seen: Seen) -> Reply:
        versions = self._catalogue.versions
        return self._statistics([served for served in versions if seen(served.model.tag.name)])

    def _model_ready(self, route: Route) -> Reply:
        try:
            name = self._find_available(route).model.tag.name
        except NotReadyError as error:  # one version that is not: the server stays ready
            return self._unready(error, {"name": route.model, "ready": False})
        return self._ready({"name": name, "ready": self._catalogue.readiness.is_ready})

    def _find_available(self, route: Route) -> ServedVersion:
        served = self._find(route)
        if not served.driver.is_available:
            raise NotReadyError(
                f"A call of {served.model.tag} hung, and what runs it is being replaced."
            )
        return served

    def _find(self, route: Route) -> ServedVersion:
        return self._catalogue.find(str(route.model), route.version)

    def _statistics(self, versions: Sequence[ServedVersion]) -> Reply:
        tags = [(served, served.response_tag) for served in versions]
        statistics = [
            model_statistics(served, self._metrics.stages[tag.model_name, tag.model_version])
            for served, tag in tags
        ]
        return json_reply(200, {"model_stats": statistics})

    def _health(self) -> dict[str, object]:
        return {"live": True, "ready": self._catalogue.readiness.is_ready}

    def _ready(self, content: dict[str, object]) -> Reply:
        """Answer 200 with ``content``, or 503 with it and the error body: clients read either."""
        try:
            self._catalogue.readiness.check()
        except TidegateError as error:
            return self._unready(error, content)
        return json_reply(200, content)

    def _unready(self, error: TidegateError, content: dict[str, object]) -> Reply:
        problem = ending_of_error(error, self._draw).answer
        assert isinstance(problem, Problem)
        return problem_reply(problem, request_id=self._ids.choose(), extra=content)

    def _metadata(self, route: Route) -> dict[str, object]:
        served = self._find(route)
        signature = served.model.signature
        return {
            "name": served.model.tag.name,
            "versions": [str(number) for number in self._catalogue.numbers(served.model.tag.name)],
            "platform": PLATFORM,
            "inputs": _tensors(signature.inputs),
            "outputs": _tensors(signature.outputs),
            "parameters": {
                **_parameters(served),
                **_newcomers(self._catalogue.offer(served.model.tag.name)),
            },
        }


def _parameters(served: ServedVersion) -> dict[str, object]:
    """Say what is in force for a version, so that a setting that was not read shows.

    Not where it was set: that is a path of this machine, and callers need none.
    """
    cap = cap_numbers(served.driver.pace)
    return {
        "tidegate_version": str(served.model.tag.version),
        "tidegate_digest": served.model.tag.digest,
        "slo_ms": served.objective.slo_ms,
        "percentile": served.objective.percentile,
        "objective_is_default": served.objective_origin == DEFAULT,
        "best_effort": served.best_effort,
        "max_deadline_ms": ns_to_ms(served.max_deadline_ns),
        "backend": served.backend,
        "cap_rows": cap.effective,
        "cap_limited_by": cap.limited_by,
        "cap_slo_rows": cap.slo,
        "cap_knee_rows": cap.knee,
        "cap_memory_rows": cap.memory,
        "need_rows": cap.need,
        **caps_by_tokens(served.driver),
        "queue_limit_rows": served.driver.limits.queue_limit_rows,
    }


def _newcomers(offer: Offer) -> dict[str, object]:
    """Say which versions are on their way, or failed: with the code alone, for anybody may ask."""
    found: dict[str, object] = {}
    if offer.coming:
        found["tidegate_loading_versions"] = ", ".join(map(str, sorted(offer.coming)))
    if offer.failed:
        failed = (f"{version} ({code})" for version, code in sorted(offer.failed.items()))
        found["tidegate_failed_versions"] = ", ".join(failed)
    return found


def _tensors(specs: Sequence[TensorSpec]) -> list[dict[str, object]]:
    return [
        {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)} for spec in specs
    ]
