"""From a raw path to a route, or to nothing; there are no redirects and no second spelling.

Each segment is percent-decoded once and then matched, so that no decoding can ever make a slash,
a dot segment or a NUL out of anything: all of these are just not found.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote


class Action(StrEnum):
    """What a route asks for. Strings, because hashing any other Enum is slow in Python."""

    SERVER = "server"
    LIVE = "live"
    READY = "ready"
    MODEL = "model"
    MODEL_READY = "model_ready"
    MODEL_CONFIG = "model_config"
    MODEL_STATISTICS = "model_statistics"
    STATISTICS = "statistics"
    INFER = "infer"
    MODELS_V1 = "models_v1"
    MODEL_V1 = "model_v1"
    PREDICT = "predict"


GET: Final = ("GET", "HEAD")
POST: Final = ("POST",)
METHODS: Final = {
    action: POST if action in {Action.INFER, Action.PREDICT} else GET for action in Action
}


@dataclass(frozen=True, slots=True)
class Route:
    """A path that is served."""

    action: Action
    model: str | None = None
    version: str | None = None
    """As in the path: a number or an alias; ``None`` leaves the choice to the server."""


_FIXED: Final = {
    "/v2": Route(Action.SERVER),
    "/v2/health/live": Route(Action.LIVE),
    "/v2/health/ready": Route(Action.READY),
    "/v2/models/stats": Route(Action.STATISTICS),
    "/v1/models": Route(Action.MODELS_V1),
}
_MODEL: Final = r"(?P<model>[a-z0-9][a-z0-9._-]{0,63})"
_VERSION: Final = r"(?:/versions/(?P<version>[1-9][0-9]{0,8}|[a-z][a-z0-9_-]{0,31}))?"
_PATTERNS: Final = (
    (
        re.compile(f"/v2/models/{_MODEL}{_VERSION}(?P<tail>/infer|/ready|/config|/stats)?"),
        {
            "/infer": Action.INFER,
            "/ready": Action.MODEL_READY,
            "/config": Action.MODEL_CONFIG,
            "/stats": Action.MODEL_STATISTICS,
            None: Action.MODEL,
        },
    ),
    (re.compile(f"/v1/models/{_MODEL}{_VERSION}(?P<tail>:predict)"), {":predict": Action.PREDICT}),
    (re.compile(f"/v1/models/{_MODEL}(?P<version>(?P<tail>))"), {"": Action.MODEL_V1}),
)


@lru_cache(maxsize=512)  # a look-up instead of 2 µs of matching; at most 4 MiB of the longest paths
def match_route(raw_path: str) -> Route | None:
    """Find the route of a path as it came over the wire, without its query."""
    path = raw_path if "%" not in raw_path else _decoded(raw_path)
    if path is None:
        return None
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    for pattern, actions in _PATTERNS:
        found = pattern.fullmatch(path)
        if found:
            return Route(actions[found["tail"]], found["model"], found["version"] or None)
    return None


def _decoded(raw_path: str) -> str | None:
    segments = [unquote(segment) for segment in raw_path.split("/")]
    if any("/" in segment for segment in segments):
        return None
    return "/".join(segments)
