"""What stands before every route of the admin listener: whom a browser speaks for, and a key.

A page of another site can make the browser of an operator send requests to loopback. It cannot
choose the ``Host`` (but can point a name of its own here: DNS rebinding), cannot hide its
``Origin``, and cannot send JSON without asking first, which nobody here answers. So each of the
three is looked at, for every method.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate_realtime.api.admin.errors import problem_response
from tidegate_realtime.api.admin.scopes import scope_of
from tidegate_realtime.api.errors import CrossSiteError
from tidegate_realtime.api.guards import check_host, check_single
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.replies import Problem

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
PRINCIPAL: Final = "principal"
"""Where ``request.state`` has who asked, for whoever writes it down."""

_JSON: Final = re.compile(r"application/json *(;.*)?", re.IGNORECASE)
_TRITON_PATHS: Final = "/v2/repository/"
_MAY_READ: Final = frozenset({"none", "same-origin", "same-site"})
"""A page of this machine may link here; what it reads its browser keeps from it."""


class AdminGuard:
    """Pure ASGI middleware: a base class for middleware would hide that a client has left."""

    def __init__(
        self, app: ASGIApp, policy: Policy, *, refused: Callable[[str], None] = lambda _: None
    ) -> None:
        """Stand before an application.

        Args:
            app: What answers whoever may ask.
            policy: Who that is.
            refused: Told of each refusal by its code.
        """
        self._app = app
        self._refused = refused
        self._access = policy.access
        self._names = LOOPBACK_NAMES | policy.admin_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return  # nothing else is served here
        try:
            names = [name.decode("latin-1") for name, _ in scope["headers"]]
            headers = _headers(scope)
            check_browser(scope["method"], scope["path"], headers, names=self._names)
            check_single(names.count)
            shown = headers.get("authorization")
            principal = self._access.authorize(shown, scope_of(scope["path"]))
        except TidegateError as error:
            self._refused(error.code)
            await problem_response(Problem.of_error(error))(scope, receive, send)
            return
        scope.setdefault("state", {})[PRINCIPAL] = principal
        await self._app(scope, receive, send)


def check_browser(
    method: str, path: str, headers: Mapping[str, str], *, names: Collection[str]
) -> None:
    """Refuse what a page of another site sent, or could have sent.

    Args:
        method: In upper case.
        path: Decoded.
        headers: By lower-case name; values of a repeated one joined, so that none is overlooked.
        names: Of this listener.

    Raises:
        HostNotAllowedError: It was addressed by another name.
        CrossSiteError: It comes from elsewhere, or a form could send it.
    """
    host = headers.get("host")
    check_host(host, names)
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in _origins(str(host).lower()):
        raise CrossSiteError("A page of another origin sent this request; it was not obeyed.")
    site = headers.get("sec-fetch-site", "none").lower()
    if site not in ({"none", "same-origin"} if method not in READING else _MAY_READ):
        raise CrossSiteError("A page of another site sent this request; it was not obeyed.")
    if method not in READING and not _is_no_form(path, headers):
        raise CrossSiteError(
            "What changes something must come with 'Content-Type: application/json', which no page "
            "of another site can send."
        )


def _origins(host: str) -> Collection[str]:
    return {f"http://{host}", f"https://{host}"}  # the latter: TLS may end in front of us


def _is_no_form(path: str, headers: Mapping[str, str]) -> bool:
    """Say whether a browser would have had to ask before it sent this across origins."""
    kind = headers.get("content-type")
    if kind is not None and _JSON.fullmatch(kind):
        return True
    # Triton's clients send no type, or application/octet-stream. So do pages only with an Origin.
    from_a_browser = "origin" in headers or "sec-fetch-site" in headers
    is_harmless = kind is None or kind.strip().lower() == "application/octet-stream"
    return path.startswith(_TRITON_PATHS) and is_harmless and not from_a_browser


def _headers(scope: Scope) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
