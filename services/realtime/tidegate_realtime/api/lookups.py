"""Answers that need no model: what this server is, what it serves, and whether it is ready."""

from collections.abc import Sequence
from typing import Final, assert_never

from tidegate import __version__
from tidegate.errors import TidegateError
from tidegate.settings.loading import DEFAULT
from tidegate.tensors.signature import TensorSpec
from tidegate.units import ns_to_ms
from tidegate_realtime.api.caps import cap_numbers
from tidegate_realtime.api.endings import Draw, ending_of_error
from tidegate_realtime.api.errors import ModelNotServedError
from tidegate_realtime.api.replies import Problem, Reply, json_reply, problem_reply
from tidegate_realtime.api.request_ids import RequestIds
from tidegate_realtime.api.routing import Action, Route
from tidegate_realtime.api.served import Catalogue, ServedVersion

EXTENSIONS: Final = ("parameters", "schedule_policy")
"""Of the protocol; a client calls what stands here, so each must pass its tests."""
PLATFORM: Final = "onnxruntime_onnx"


class Lookups:
    """Everything but predictions."""

    def __init__(self, *, catalogue: Catalogue, ids: RequestIds, draw: Draw) -> None:
        self._catalogue = catalogue
        self._ids = ids
        self._draw = draw

    def answer(self, route: Route) -> Reply:
        """Answer a route that is no prediction.

        Raises:
            RequestRejectedError: There is no such model or version here.
        """
        match route.action:
            case Action.SERVER:
                return json_reply(
                    200, {"name": "tidegate", "version": __version__, "extensions": EXTENSIONS}
                )
            case Action.LIVE:
                return json_reply(200, self._health())
            case Action.READY:
                return self._ready(self._health())
            case Action.MODEL:
                return json_reply(200, self._metadata(route))
            case Action.MODEL_READY | Action.MODEL_V1:
                served = self._catalogue.find(str(route.model), route.version)
                return self._ready(
                    {"name": served.model.tag.name, "ready": self._catalogue.readiness.is_ready}
                )
            case Action.MODELS_V1:
                return json_reply(200, {"models": self._catalogue.names})
            case Action.INFER | Action.PREDICT:
                raise ModelNotServedError("a prediction is no look-up")
            case _:
                assert_never(route.action)

    def _health(self) -> dict[str, object]:
        return {"live": True, "ready": self._catalogue.readiness.is_ready}

    def _ready(self, content: dict[str, object]) -> Reply:
        """Answer 200 with ``content``, or 503 with it and the error body: clients read either."""
        try:
            self._catalogue.readiness.check()
        except TidegateError as error:
            problem = ending_of_error(error, self._draw).answer
            assert isinstance(problem, Problem)
            return problem_reply(problem, request_id=self._ids.choose(), extra=content)
        return json_reply(200, content)

    def _metadata(self, route: Route) -> dict[str, object]:
        served = self._catalogue.find(str(route.model), route.version)
        signature = served.model.signature
        return {
            "name": served.model.tag.name,
            "versions": [str(number) for number in self._catalogue.numbers(served.model.tag.name)],
            "platform": PLATFORM,
            "inputs": _tensors(signature.inputs),
            "outputs": _tensors(signature.outputs),
            "parameters": _parameters(served),
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
        "queue_limit_rows": served.driver.limits.queue_limit_rows,
    }


def _tensors(specs: Sequence[TensorSpec]) -> list[dict[str, object]]:
    return [
        {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)} for spec in specs
    ]
