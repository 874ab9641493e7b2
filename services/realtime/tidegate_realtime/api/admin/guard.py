"""Refuses to be addressed by a foreign name, as a page in a browser would after DNS rebinding."""

import re
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate_realtime.api.admin.errors import problem_response
from tidegate_realtime.api.errors import HostNotAllowedError
from tidegate_realtime.api.replies import Problem

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.IGNORECASE)


class HostGuard:
    """Pure ASGI middleware: a base class for middleware would hide that a client has left."""

    def __init__(self, app: ASGIApp, *, names: Iterable[str] = LOOPBACK_NAMES) -> None:
        self._app = app
        self._names = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 400."""
        if scope["type"] == "http" and not self._is_ours(scope):
            error = HostNotAllowedError(
                "The Host of this request is none of this listener's names; use 127.0.0.1."
            )
            await problem_response(Problem.of_error(error))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        found = _HOST.fullmatch(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        return found is not None and found["name"].lower() in self._names
