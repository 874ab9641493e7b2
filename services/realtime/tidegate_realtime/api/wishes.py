"""What a caller may wish for besides an answer: by when, and how urgently.

A deadline comes in two ways, and the shorter one counts: ``parameters.timeout`` of the body, whose
unit the protocol has fixed to microseconds, and the header ``Tidegate-Deadline-Ms``. It runs from
the moment the headers were read, because the caller's clock runs already; the objective, which
counts where nobody says anything, runs from the last byte of the body.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from tidegate.errors import RequestRejectedError
from tidegate.oip.errors import BadOptionError
from tidegate.oip.parameters import Parameter
from tidegate.units import NS_PER_MS, Nanoseconds, ns_to_ms

DEADLINE_HEADER: Final = "tidegate-deadline-ms"
_MILLISECONDS: Final = re.compile(r"[1-9][0-9]{0,7}", re.ASCII)
_NS_PER_MICROSECOND: Final = 1_000
_MOST_MICROSECONDS: Final = 99_999_999_000
"""As much as the header can say: 27 hours. More is another unit, or another mistake."""
_SHOWN: Final = 40
"""Characters of a value that cannot be meant."""
NORMAL: Final = 2
BULK: Final = 3


class DeadlineTooShortError(RequestRejectedError):
    """Not even an idle server would answer in time, so that another try would not help."""

    code = "deadline_too_short"
    asked_ms: float
    needed_ms: float

    @classmethod
    def of(cls, deadline: "Deadline", *, model: str, needed_ns: int) -> Self:
        """Describe one request, and the unit of what it asked for."""
        asked_ms, needed_ms = ns_to_ms(deadline.asked_ns), ns_to_ms(needed_ns)
        error = cls(f"{deadline.said}; one row of {model} needs {needed_ms:.3g} ms.")
        error.asked_ms, error.needed_ms = asked_ms, round(needed_ms, 3)
        return error


class Deadline(NamedTuple):
    """What one caller asked for."""

    asked_ns: Nanoseconds
    """From the headers on; not yet cut to what a model allows."""
    said: str
    """The option, its unit and its value, as the beginning of a sentence."""


class Wishes(NamedTuple):
    """Of one request."""

    deadline: Deadline | None = None
    """``None``: the objective is what the caller is content with."""
    priority: int = NORMAL
    """1 highest, 2 normal, 3 bulk."""


_NONE: Final = Wishes()


def header_deadline(text: str | None) -> Deadline | None:
    """Read ``Tidegate-Deadline-Ms``.

    Raises:
        BadOptionError: It is no whole number of milliseconds from 1 to 99,999,999.
    """
    if text is None:
        return None
    if not _MILLISECONDS.fullmatch(text):
        raise BadOptionError(
            f"Tidegate-Deadline-Ms is {text[:40]!r}; write a whole number of milliseconds, from 1 "
            "to 99999999, without a unit."
        )
    return Deadline(Nanoseconds(int(text) * NS_PER_MS), f"Tidegate-Deadline-Ms is {text} ms")


def wishes_of(parameters: Mapping[str, Parameter], of_header: Deadline | None) -> Wishes:
    """Put the parameters of a body and its header together.

    Args:
        parameters: Of the request as a whole; others than ``timeout`` and ``priority`` are not
            looked at.
        of_header: The deadline that the header named.

    Raises:
        BadOptionError: A value that cannot be meant: negative, no integer, or far too large.
    """
    if not parameters:
        return _NONE if of_header is None else Wishes(of_header)
    of_body = _timeout(parameters)
    given = [deadline for deadline in (of_body, of_header) if deadline is not None]
    return Wishes(min(given, default=None), _priority(parameters))


def deadline_at_ns(
    deadline: Deadline | None,
    *,
    content_with_ns: int,
    longest_ns: int,
    began_at_ns: int,
    arrived_at_ns: int,
) -> Nanoseconds:
    """Return the instant from which on an answer is too late.

    Args:
        deadline: What the caller asked for, if anything.
        content_with_ns: How long callers wait who do not say: the objective.
        longest_ns: What a longer deadline is cut to.
        began_at_ns: When the headers had been read.
        arrived_at_ns: When the last byte of the body came.
    """
    if deadline is None:
        return Nanoseconds(arrived_at_ns + content_with_ns)
    return Nanoseconds(began_at_ns + min(deadline.asked_ns, longest_ns))


def _timeout(parameters: Mapping[str, Parameter]) -> Deadline | None:
    microseconds = _whole(parameters, "timeout", "microseconds", _MOST_MICROSECONDS)
    if microseconds == 0:
        return None
    asked_ns = Nanoseconds(microseconds * _NS_PER_MICROSECOND)
    said = f"timeout is in microseconds: {microseconds} is {ns_to_ms(asked_ns):.12g} ms"
    return Deadline(asked_ns, said)


def _priority(parameters: Mapping[str, Parameter]) -> int:
    return min(_whole(parameters, "priority", "1 highest, 2 normal, 3 bulk", None), BULK) or NORMAL


def _whole(parameters: Mapping[str, Parameter], name: str, meaning: str, most: int | None) -> int:
    value = parameters.get(name, 0)
    # A bool is an int to Python, and to nobody else.
    if type(value) is not int or value < 0 or (most is not None and value > most):
        up_to = "" if most is None else f", at most {most}"
        raise BadOptionError(
            f"The parameter {name!r} is {_as_json(value)}; write a whole number that is 0 or "
            f"more{up_to} ({meaning}), or leave it out."
        )
    return value


def _as_json(value: Parameter) -> str:
    """Show a value as it was written, so that "5" is no 5."""
    text = json.dumps(value, ensure_ascii=False)
    kind = ", a string" if isinstance(value, str) else ""
    return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}{kind}"
