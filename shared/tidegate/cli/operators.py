"""Asks a gateway by its listener for operators."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from tidegate.cli.credentials import KEY_VARIABLE, authorization
from tidegate.errors import (
    ModelNotFoundError,
    PartUnavailableError,
    SettingError,
    TidegateError,
)
from tidegate.keys.errors import ForbiddenError, UnauthenticatedError

Json = Mapping[str, Any]

DEFAULT_URL: Final = "http://127.0.0.1:8002"
_REDIRECTS: Final = range(300, 400)
_OF_KEYS: Final = {error.code: error for error in (UnauthenticatedError, ForbiddenError)}
_ELSEWHERE: Final = frozenset({"", "route_not_found", "method_not_allowed"})


class GatewayRefusedError(TidegateError):
    """A gateway did not do what it was asked; the message has its reason and its code."""

    code = "gateway_refused"


def ask_gateway(url: str, path: str, *, timeout_s: float, method: str = "GET") -> Json:
    """Send one request without a body, and return the JSON that answers it.

    Args:
        url: Of the listener for operators.
        path: With its query; quoted.
        timeout_s: How long to wait for the answer.
        method: ``POST`` for what changes something.

    Raises:
        SettingError: ``url`` is none, or ``TIDEGATE_KEY`` no key.
        UnauthenticatedError: It asks for a key, or does not know the one that was shown.
        ForbiddenError: The key is not for operators.
        PartUnavailableError: Nobody answers there, or something else does.
        ModelNotFoundError: It has no such model or version.
        GatewayRefusedError: It says no.
    """
    address = _checked(url)
    headers = {"Content-Type": "application/json", **authorization()}
    request = Request(address + path, headers=headers, method=method)
    try:
        with _direct().open(request, timeout=timeout_s) as reply:
            answer = json.load(reply)
    except HTTPError as error:
        with error:
            raise _refusal(error, address, was_shown="Authorization" in headers) from None
    except ValueError:
        raise _no_gateway(address, "what answers there sends no JSON") from None
    except (URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise PartUnavailableError(f"no gateway answers at {address}: {reason}") from None
    except HTTPException:
        raise _no_gateway(address, "what answers there speaks no HTTP") from None
    if not isinstance(answer, dict):
        raise _no_gateway(address, "what answers there sends other JSON")
    return answer


class _NoRedirects(HTTPRedirectHandler):
    """Leaves a redirect an error: the key would go along, to whatever host it names."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


def _direct() -> OpenerDirector:
    """Open without a proxy: the listener is on loopback, or behind a tunnel that ends there."""
    return build_opener(ProxyHandler({}), _NoRedirects())


def _no_gateway(address: str, why: str) -> PartUnavailableError:
    return PartUnavailableError(
        f"{address} is no listener for operators ({why}); it is the one of --admin-port, 8002 by "
        "default"
    )


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        is_one = False
    if not is_one:
        raise SettingError(
            f"{url!r} is no address of a gateway; write it as {DEFAULT_URL}, the listener for "
            "operators"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _refusal(error: HTTPError, address: str, *, was_shown: bool) -> TidegateError:
    """Turn a reply that is no answer into an error of ours."""
    if error.code in _REDIRECTS:
        return PartUnavailableError(
            f"{address} answers {error.code}, a redirect, which is not followed: the key would go "
            "along. Name the listener for operators itself"
        )
    try:
        told = json.load(error)
        code, message = str(told["code"]), str(told["error"])
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        code, message = "", f"it answers {error.code}"
    if code in _OF_KEYS:
        return _OF_KEYS[code](_about_the_key(message, address, was_shown=was_shown))
    if code in {"model_not_found", "version_not_served"}:
        return ModelNotFoundError(message)
    if code in _ELSEWHERE:
        return _no_gateway(address, message)
    return GatewayRefusedError(f"{message} (the gateway's code: {code})")


def _about_the_key(message: str, address: str, *, was_shown: bool) -> str:
    """Name the variable that is to be set, and what makes a key for it."""
    make = "tidegate keys create --scope admin makes one, for the file that the gateway reads"
    if was_shown:
        return (
            f"{address} refuses the key in {KEY_VARIABLE}: {message} It wants scope admin; {make}"
        )
    return f"{address} asks for a key: set {KEY_VARIABLE} to one of scope admin; {make}"
