"""What a key must be for on each route of the admin listener; one without a row stops the start."""

from collections.abc import Iterable, Mapping
from typing import Final

from tidegate.keys.key import Scope

OPEN: Final = None
"""Anybody on this machine may ask: probes and scrapers have no key."""

ADMIN_SCOPES: Final[Mapping[str, Scope | None]] = {
    "/metrics": OPEN,
    "/v2/health/live": OPEN,
    "/v2/health/ready": OPEN,
    "/docs": Scope.ADMIN,
    "/openapi.json": Scope.ADMIN,
    "/admin/v1/models": Scope.ADMIN,
    "/admin/v1/models/{name}": Scope.ADMIN,
    "/admin/v1/models/{name}/aliases": Scope.ADMIN,
    "/admin/v1/models/{name}/aliases/{alias}": Scope.ADMIN,
    "/admin/v1/models/{ref}/explain": Scope.ADMIN,
    "/admin/v1/models/{ref}/load": Scope.ADMIN,
    "/admin/v1/models/{ref}/unload": Scope.ADMIN,
    "/v2/repository/index": Scope.ADMIN,
    "/v2/repository/models/{name}/load": Scope.ADMIN,
    "/v2/repository/models/{name}/unload": Scope.ADMIN,
}
"""By the route's path as it is declared."""


def scope_of(path: str) -> Scope | None:
    """Return what a request needs; whatever is not open by its exact path needs ``admin``."""
    return ADMIN_SCOPES.get(path, Scope.ADMIN)


def check_admin_scopes(paths: Iterable[str]) -> None:
    """Refuse to serve while a route has no row.

    Raises:
        LookupError: Names the routes; a bug of ours.
    """
    missing = sorted(set(paths) - ADMIN_SCOPES.keys())
    if missing:
        raise LookupError(f"no scope is said of the routes {missing}; see ADMIN_SCOPES")
