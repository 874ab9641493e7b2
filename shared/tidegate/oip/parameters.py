"""The parameters of a request, an input and a wanted output: what may be ignored, what not."""

from collections.abc import Mapping
from typing import Final

from tidegate.oip.errors import (
    BadOptionError,
    MalformedRequestError,
    UnsupportedParameterError,
)

Parameter = str | int | float | bool
Parameters = Mapping[str, Parameter]

OPTION_PREFIX: Final = "tidegate_"
OPTIONS: Final = frozenset({"tidegate_allow_degraded"})
"""All that there are; each is true or false."""
OF_INPUT: Final = frozenset({"binary_data_size"})
OF_OUTPUT: Final = frozenset({"classification"})
_REFUSED: Final = ("shared_memory_", "sequence_", *OF_INPUT, *OF_OUTPUT)
"""Beginnings of parameters that cannot be ignored: without them the request means another thing."""

_MOST: Final = 64


def check_parameters(parameters: Parameters, *, known: frozenset[str] = frozenset()) -> None:
    """Accept parameters that may be ignored; the protocol says that unknown ones are.

    Args:
        parameters: Of one place of a request.
        known: What is understood at this place, and would be refused elsewhere.

    Raises:
        MalformedRequestError: More than 64.
        UnsupportedParameterError: One that would change what the request means.
        BadOptionError: One of ours that does not exist.
    """
    if len(parameters) > _MOST:
        raise MalformedRequestError(
            f"There are {len(parameters)} parameters at one place; up to {_MOST} are accepted."
        )
    for name in parameters:
        if name in known:
            continue
        if name.startswith(_REFUSED):
            raise UnsupportedParameterError(
                f"The parameter {name[:80]!r} is not supported here; leave it out."
            )
        if name.startswith(OPTION_PREFIX):
            _check_option(name, parameters[name])


def flag(parameters: Parameters, name: str, *, default: bool) -> bool:
    """Read a parameter that is true or false.

    Raises:
        MalformedRequestError: It is something else.
    """
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise MalformedRequestError(
            f"The parameter {name!r} is {str(value)[:40]!r}; write true or false."
        )
    return value


def _check_option(name: str, value: Parameter) -> None:
    if name not in OPTIONS:
        raise BadOptionError(f"There is no option {name[:80]!r}; leave it out.")
    if type(value) is not bool:
        raise BadOptionError(f"{name!r} is {str(value)[:40]!r}; write true or false.")
