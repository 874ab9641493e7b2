"""What a key must be for on each public route. What has no row here is served to nobody."""

from collections.abc import Mapping
from typing import Final

from tidegate.keys.key import Scope
from tidegate_realtime.api.routing import Action

OPEN: Final = None
"""Anybody may ask: load balancers have no key."""

SCOPES: Final[Mapping[Action, Scope | None]] = {
    Action.SERVER: OPEN,
    Action.LIVE: OPEN,
    Action.READY: OPEN,
    Action.MODEL: Scope.PREDICT,
    Action.MODEL_READY: Scope.PREDICT,
    Action.MODEL_CONFIG: Scope.PREDICT,
    Action.MODEL_STATISTICS: Scope.PREDICT,
    Action.STATISTICS: Scope.PREDICT,
    Action.INFER: Scope.PREDICT,
    Action.MODELS_V1: Scope.PREDICT,
    Action.MODEL_V1: Scope.PREDICT,
    Action.PREDICT: Scope.PREDICT,
}


def check_scopes(scopes: Mapping[Action, Scope | None] = SCOPES) -> None:
    """Refuse to serve while a route has no row.

    Raises:
        LookupError: Names the routes; a bug of ours.
    """
    missing = sorted(set(Action) - scopes.keys())
    if missing:
        raise LookupError(f"no scope is said of the routes {missing}; give each a row in SCOPES")
