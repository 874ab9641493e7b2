"""What stands before every route: whom a browser speaks for, and a key of scope ``jobs``.

A page of another site can make a browser on this machine send requests to loopback. It cannot
choose the ``Host`` (but can point a name of its own here), cannot hide its ``Origin``, and cannot
send JSON without asking first, which nobody here answers. So each of the three is looked at.
"""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.keys.access import Access
from tidegate.keys.key import Scope as KeyScope
from tidegate_batch.api.errors import CrossSiteError, HostNotAllowedError, problem_of

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
PRINCIPAL: Final = "principal"
"""Where ``request.state`` has who asked, for whoever writes it down."""
OPEN_PATHS: Final = frozenset({"/v2/health/live", "/v2/health/ready"})
"""Anybody may ask: probes have no key."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class JobsGuard:
    """Pure ASGI middleware around an application."""

    def __init__(self, app: ASGIApp, access: Access, *, names: Collection[str] = ()) -> None:
        """Stand before ``app``; ``names`` are those of this listener beside loopback's."""
        self._app = app
        self._access = access
        self._names = LOOPBACK_NAMES | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return  # nothing else is served here
        headers = Headers(scope=scope)
        try:
            self._check_browser(scope["method"], headers)
            needed = None if scope["path"] in OPEN_PATHS else KeyScope.JOBS
            principal = self._access.authorize(headers.get("authorization"), needed)
        except TidegateError as error:
            await problem_of(error)(scope, receive, send)
            return
        scope.setdefault("state", {})[PRINCIPAL] = principal
        await self._app(scope, receive, send)

    def _check_browser(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if host.rpartition(":")[0] not in self._names and host not in self._names:
            raise HostNotAllowedError(
                "The Host of this request is none of this listener's names; address it by one of "
                "them, or name it with --allow-host."
            )
        origins = headers.getlist("origin")
        if any(o.lower() not in {f"http://{host}", f"https://{host}"} for o in origins):
            raise CrossSiteError("A page of another origin sent this request; it was not obeyed.")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in _READING and kind != "application/json":
            raise CrossSiteError(
                "What changes something must come with 'Content-Type: application/json', which no "
                "page of another site can send."
            )
