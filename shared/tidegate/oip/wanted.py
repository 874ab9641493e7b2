"""The outputs that a request names, and the form that it wants each of them in."""

from collections.abc import Iterable
from typing import Final

import msgspec

from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.limits import WireLimits
from tidegate.oip.parameters import OF_OUTPUT, Parameters, check_parameters, flag

_NOTHING: Final[Parameters] = {}


class WantedOutput(msgspec.Struct, frozen=True):
    """One requested output."""

    name: str
    binary: bool
    """As bytes behind the JSON of the reply."""
    classes: int = 0
    """Above 0: not its values but its so many highest ones, ``value:index[:label]`` each."""


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
