"""Parameters of a message, which say their type, and Python values, which are one."""

from collections.abc import Mapping, MutableMapping

from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.parameters import Parameter, Parameters
from tidegate.oip.protobuf.v2_pb2 import InferParameter


def read_parameters(wire: Mapping[str, InferParameter]) -> dict[str, Parameter]:
    """Return the values by name; either kind of integer is one.

    Raises:
        MalformedRequestError: One has no value at all.
    """
    return {name: _value(name, parameter) for name, parameter in wire.items()}


def _value(name: str, parameter: InferParameter) -> Parameter:
    kind = parameter.WhichOneof("parameter_choice")
    if kind is None:
        raise MalformedRequestError(f"The parameter {name[:80]!r} has no value.")
    value: Parameter = getattr(parameter, kind)
    return value


def write_parameters(parameters: Parameters, wire: MutableMapping[str, InferParameter]) -> None:
    """Put values into a message; the inverse of ``read_parameters``, but for the integers' kind."""
    for name, value in parameters.items():
        match value:
            case bool():  # before int, which it is to Python
                wire[name].bool_param = value
            case int():
                wire[name].int64_param = value
            case float():
                wire[name].double_param = value
            case str():
                wire[name].string_param = value
