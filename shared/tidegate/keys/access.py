"""The one question of every listener, asked by REST, gRPC and operators alike: may this be done?"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from tidegate.keys.errors import ForbiddenError, UnauthenticatedError
from tidegate.keys.key import Key, Quota, Scope, Token
from tidegate.keys.ring import Keyring

_BEARER: Final = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks."""

    tenant: str
    """Whom it is counted for."""
    key_id: str | None = None
    """For the log; ``None`` where no key is asked for."""
    best_priority: int = 1
    """The best class that it may ask for: 1 highest, 2 normal, 3 bulk."""
    models: tuple[str, ...] | None = None
    """The only models that it may see where it asks for none by name; ``None``: all."""
    quota: Quota | None = None
    """How much its tenant may ask for; ``None``: any number of rows."""


ANYBODY: Final = Principal(tenant="anonymous")


class Access:
    """Decides by the keys, where there are any."""

    def __init__(
        self, ring: Keyring | None = None, *, anonymous: AbstractSet[Scope] = frozenset()
    ) -> None:
        """Set up.

        Args:
            ring: The keys; without any everything is open, so listen on loopback only.
            anonymous: Scopes that need no key. A key that is shown all the same must be sound.
        """
        self._ring = ring
        self._anonymous = anonymous

    @property
    def asks(self) -> bool:
        """Whether anybody is asked for a key, so that looking for one is worth its time."""
        return self._ring is not None

    def authorize(
        self, authorization: str | None, scope: Scope | None, model: str | None = None
    ) -> Principal:
        """Say who asks, or that it may not be done.

        Args:
            authorization: The header of that name, as it came; ``None`` if there was none.
            scope: What is to be done; ``None`` if anybody may do it.
            model: What it is to be done with, if it is one model, whether or not there is one.

        Raises:
            UnauthenticatedError: No key, or none that is known; 401.
            ForbiddenError: A known key that lacks the scope or the model; 403.
        """
        if self._ring is None or scope is None:
            return ANYBODY
        if authorization is None and scope in self._anonymous:
            return ANYBODY
        key = self._ring.find(_token(authorization))
        _check(key, scope, model)
        return Principal(
            tenant=key.tenant,
            key_id=key.id,
            best_priority=key.best_priority,
            models=key.models,
            quota=key.quota,
        )


def _token(authorization: str | None) -> Token:
    found = _BEARER.fullmatch(authorization or "")
    token = Token.parse(found["token"]) if found else None
    if token is None:
        raise UnauthenticatedError("Show a key: 'Authorization: Bearer tg_<id>_<secret>'.")
    return token


def _check(key: Key, scope: Scope, model: str | None) -> None:
    if scope not in key.scopes:
        raise ForbiddenError(f"The key {key.id} is not for {scope}; its scopes: {_list(key)}.")
    if model is not None and key.models is not None and model not in key.models:
        raise ForbiddenError(f"The key {key.id} is not for this model.")


def _list(key: Key) -> str:
    return ", ".join(key.scopes) or "none"
