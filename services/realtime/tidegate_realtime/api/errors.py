"""What the HTTP edge itself refuses; the statuses are in ``error_map``."""

from collections.abc import Sequence
from typing import Self

from tidegate.errors import OverloadedError, RequestRejectedError
from tidegate.oip.errors import LimitExceededError


class RouteNotFoundError(RequestRejectedError):
    """Nothing is served at this path."""

    code = "route_not_found"


class MethodNotAllowedError(RequestRejectedError):
    """The path is served, but not by this method."""

    code = "method_not_allowed"
    allow: str

    @classmethod
    def of(cls, method: str, *, allow: Sequence[str]) -> Self:
        """Describe one request; ``allow`` becomes the header."""
        error = cls(f"{method[:20]} is not allowed here; use {' or '.join(allow)}.")
        error.allow = ", ".join(allow)
        return error


class ModelNotServedError(RequestRejectedError):
    """No version of a model of this name is loaded; a request never loads one."""

    code = "model_not_found"


class VersionNotServedError(RequestRejectedError):
    """The model is served, but not this version or alias of it."""

    code = "version_not_served"
    served: list[int]

    @classmethod
    def of(cls, name: str, asked: str, *, served: list[int]) -> Self:
        """Describe one request by what could be had instead."""
        error = cls(f"{name} is not served at {asked!r}; its versions here: {served}.")
        error.served = served
        return error


class BodyTooLargeError(LimitExceededError):
    """More bytes than a body may have."""

    code = "body_too_large"


class TruncatedBodyError(RequestRejectedError):
    """The body ended before the length that the headers promised."""


class UploadTooSlowError(RequestRejectedError):
    """The body was not whole in time."""

    code = "upload_too_slow"


class CallerLeftError(RequestRejectedError):
    """The connection is gone, and nobody reads the answer; never sent, only counted."""

    code = "caller_left"


class UriTooLongError(LimitExceededError):
    """The path alone is longer than a request line may be."""

    code = "uri_too_long"


class HeadersTooLargeError(RequestRejectedError):
    """More header bytes than a request may have."""

    code = "headers_too_large"


class UnsupportedEncodingError(RequestRejectedError):
    """A Content-Encoding that cannot be undone here."""

    code = "unsupported_encoding"


class HostNotAllowedError(RequestRejectedError):
    """The ``Host`` is none of the names of this listener (DNS rebinding)."""

    code = "host_not_allowed"


class CrossSiteError(RequestRejectedError):
    """A page of another site sent it, or could have."""

    code = "cross_site"


class BodiesHeldError(OverloadedError):
    """The requests in progress hold as many bytes as this process may."""


class DrainingError(OverloadedError):
    """This process is about to end and takes no new work."""

    code = "draining"


class NotReadyError(OverloadedError):
    """This process is not ready, for a reason that will pass."""

    code = "not_ready"
