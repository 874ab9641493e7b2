"""The outputs that a request names, and the form that it wants each of them in."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits
from tidegate.oip.parameters import OF_OUTPUT, Parameter, Parameters, check_parameters, flag

_NOTHING: Final[Parameters] = {}


class WantedOutput(msgspec.Struct, frozen=True):
    """One requested output."""

    name: str
    binary: bool
    """As bytes behind the JSON of the reply."""
    classes: int = 0
    """Above 0: not its values but its so many highest ones, ``value:index[:label]`` each."""


class NamedOnWire(Protocol):
    """An output as a request in JSON names it."""

    name: str
    parameters: dict[str, Parameter] | None


def wanted_form(
    outputs: Sequence[NamedOnWire] | None,
    parameters: Parameters,
    limits: WireLimits = DEFAULT_LIMITS,
) -> tuple[tuple[WantedOutput, ...] | None, bool]:
    """Check the parameters of a request as a whole, and read which outputs it wants.

    Returns:
        The outputs, ``None`` for all; and whether those that do not say go as bytes.

    Raises:
        MalformedRequestError, UnsupportedParameterError, BadOptionError: As ``wanted_outputs``
            and ``check_parameters``.
    """
    binary = False
    if parameters:
        check_parameters(parameters)
        binary = flag(parameters, "binary_data_output", default=False)
    if outputs is None:
        return None, binary
    named = [(output.name, output.parameters) for output in outputs]
    return wanted_outputs(named, limits, binary=binary), binary


def wanted_outputs(
    outputs: Iterable[tuple[str, Parameters | None]], limits: WireLimits, *, binary: bool
) -> tuple[WantedOutput, ...]:
    """Read the outputs that a request names.

    Args:
        outputs: Name and parameters of each.
        limits: Of their number.
        binary: The form of those that do not say.

    Raises:
        MalformedRequestError: None at all, too many, one twice, or a parameter that cannot be
            meant.
        UnsupportedParameterError, BadOptionError: A parameter that cannot be ignored.
    """
    wanted = tuple(_wanted(name, given or _NOTHING, binary=binary) for name, given in outputs)
    if not 0 < len(wanted) <= limits.outputs:
        raise MalformedRequestError(
            f"The request names {len(wanted)} outputs; 1 to {limits.outputs} are accepted, and "
            "without the field all come back."
        )
    if len({output.name for output in wanted}) != len(wanted):
        raise MalformedRequestError("An output is asked for twice; name each once.")
    return wanted


def _wanted(name: str, parameters: Parameters, *, binary: bool) -> WantedOutput:
    if not parameters:
        return WantedOutput(name, binary)
    check_parameters(parameters, known=OF_OUTPUT)
    classes = parameters.get("classification", 0)
    if type(classes) is not int or classes < 0:
        raise MalformedRequestError(
            f"'classification' of the output {name[:80]!r} is {str(classes)[:40]!r}; write how "
            "many classes are wanted."
        )
    return WantedOutput(name, flag(parameters, "binary_data", default=binary), classes)
