"""What a call can end with besides an answer.

::

    ClientError
    ├── BadRequestError         correct the request; sending it again does not help
    ├── UnauthorizedError       no key, a wrong one, or one that may not do this
    ├── NotFoundError           no such model or version is served there
    ├── RejectedError           too much load, or a quota; the same request may succeed later
    ├── DeadlineExpiredError    the time was over, here or there
    ├── ServerFaultError        the model or the gateway failed, or the reply makes no sense
    └── ConnectionFailedError   nobody answered

The message is what the gateway said, and what to do next. ``code`` is the gateway's own, as
``docs/errors.md`` lists them; one that never reached a gateway has the code of its class.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from tidegate.errors import TidegateError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What a gateway said instead of an answer."""

    status: int
    message: str
    code: str = ""
    """Empty where the reply had none: it came from something else on the way."""
    request_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after_ms: float | None = None


class ClientError(TidegateError):
    """Any of them."""

    status: int | None = None
    """Of HTTP; ``None`` where there was no reply."""
    request_id: str = ""
    """Names the request in the gateway's log."""
    tries: int = 1
    """How often it was sent, or tried to be."""
    _details: Mapping[str, Any] = {}
    _next_step: ClassVar[str] = ""

    @property
    def details(self) -> dict[str, object]:
        """The figures that the gateway gave, by name."""
        return dict(self._details)

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> Self:
        """Describe a reply, and add what to do about it."""
        said = refusal.message.rstrip()
        end = "" if said.endswith((".", "!", "?")) else "."
        error = cls(f"{said}{end} {cls._next_step}".rstrip())
        error.status, error.request_id = refusal.status, refusal.request_id
        error._details = refusal.details
        if refusal.code:
            vars(error)["code"] = refusal.code  # the gateway's, which says more than the class's
        return error


class BadRequestError(ClientError):
    """The request contradicts itself, the protocol, the model or a limit."""

    code = "malformed_request"


class UnauthorizedError(ClientError):
    """No key, a wrong one (401), or one that may not do this (403)."""

    code = "unauthenticated"
    _next_step = "Give the client a key that may predict with this model: Client(url, key=…)."


class NotFoundError(ClientError):
    """No such model, version or path is served there."""

    code = "model_not_found"
    _next_step = "client.models() lists what is served."


class RejectedError(ClientError):
    """Not accepted now: too much load (503), or more than a quota allows (429)."""

    code = "queue_full"
    _next_step = (
        "Ask again after retry_after_ms, allow more time with deadline_ms, or add replicas."
    )
    predicted_ms: float | None = None
    """When the gateway would have answered, where it has reckoned that."""
    retry_after_ms: float | None = None
    """When to ask again; ``None``: nothing was said."""

    @property
    def reason(self) -> str:
        """The code, such as ``deadline_unreachable``, ``queue_full`` or ``draining``."""
        return self.code

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> Self:
        """Describe a reply, with the figures of admission."""
        error = super().of_refusal(refusal)
        error.retry_after_ms = refusal.retry_after_ms
        error.predicted_ms = as_float(refusal.details.get("predicted_ms"))
        return error


class DeadlineExpiredError(ClientError):
    """The time was over before the answer came, or is too short for any.

    Whether the model ran is not known, unless the code is ``deadline_too_short``.
    """

    code = "deadline_expired"
    _next_step = "Allow more time with deadline_ms; if many end so, add replicas."

    @classmethod
    def of_waiting(cls, url: str, *, within_ms: float) -> Self:
        """Describe a wait that was given up here, since the gateway had not said anything."""
        return cls(
            f"{url} has not answered within the {within_ms:.0f} ms that were left of the deadline. "
            f"{cls._next_step}"
        )

    @classmethod
    def before_sending(cls) -> Self:
        """Describe a call whose time was over while it was being prepared, or waited."""
        return cls(f"The deadline had passed before the request was sent. {cls._next_step}")


class ServerFaultError(ClientError):
    """The model or the gateway failed, or something that is no gateway answered."""

    code = "internal"
    _next_step = "The gateway's log has the reason, by request_id."

    @classmethod
    def of_nonsense(cls, found: str) -> Self:
        """Describe a reply that the protocol does not know."""
        return cls(f"The reply is not a gateway's: {found}. Is this the public listener's address?")


class ConnectionFailedError(ClientError):
    """Nobody answered: refused, unreachable, no such name, a wrong certificate, or cut off."""

    code = "connection_failed"
    worth_another_try: bool = False
    """Whether the connection was refused, or lost before a reply began."""

    @classmethod
    def of_cause(cls, url: str, cause: object, *, worth_another_try: bool) -> Self:
        """Describe one failure by the sentence of the system that noticed it."""
        error = cls(
            f"{url} cannot be reached: {cause}. Is the gateway running there, and reachable?"
        )
        error.worth_another_try = worth_another_try
        return error


def as_float(value: object) -> float | None:
    """Take a JSON number; ``None`` for anything else, and for one that no float can be."""
    if type(value) is float:  # to Python a bool is a number too
        return value
    with suppress(OverflowError):
        return float(value) if type(value) is int else None
    return None
