"""No transform: a column is an input, a value is what the tensor holds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from tidegate.inference.arrays import Array
from tidegate.tensors.datatypes import DATATYPES, Datatype, name_of
from tidegate.tensors.signature import Signature, SignatureMismatchError, TensorSpec

_FITTING_KINDS: Final = {"f": "iuf", "i": "iu", "u": "iu", "b": "b", "O": ""}
"""By the kind of a tensor's numpy type: kinds of arrays that become it without another meaning."""
_FITTING_TYPES: Final[dict[str, frozenset[type]]] = {
    "f": frozenset({int, float}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "b": frozenset({bool}),
    "O": frozenset({str}),
}
"""The same for JSON values."""


class PlainReader:
    """Reads each input of the signature from the column of its name."""

    reads_numbers = True

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self.columns = tuple(spec.name for spec in signature.inputs)

    def from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Read one value per row where the model has one input, else objects of all inputs."""
        if len(self.columns) == 1 and not any(isinstance(row, Mapping) for row in instances):
            return self._tensors({self.columns[0]: list(instances)})
        for place, row in enumerate(instances):
            if not isinstance(row, Mapping) or set(row) != set(self.columns):
                raise SignatureMismatchError.of_input(
                    self.columns[0],
                    expected=f"an object with the names {list(self.columns)} as instance {place}",
                    found=_describe(row),
                )
        rows: Sequence[Mapping[str, object]] = instances  # type: ignore[assignment] # checked above
        return self._tensors({name: [row[name] for row in rows] for name in self.columns})

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read each input from an array ``(rows, …)`` of its name."""
        return self._tensors(columns)

    def _tensors(self, values: Mapping[str, Array | list[object]]) -> dict[str, Array]:
        return {spec.name: _tensor(spec, values[spec.name]) for spec in self._signature.inputs}


def _tensor(spec: TensorSpec, values: Array | list[object]) -> Array:
    """Build ``(rows, …)`` of the input's datatype; no value may change its meaning on the way."""
    wanted = DATATYPES[spec.datatype]
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        tensor = _of_array(spec, values, wanted)
    else:
        tensor = _of_values(spec, [_plain(value) for value in values], wanted)
    if wanted.kind == "f" and not np.isfinite(tensor).all():
        raise _does_not_fit(spec)
    spec.check(tensor)
    return np.ascontiguousarray(tensor)


def _of_array(spec: TensorSpec, values: Array, wanted: Datatype) -> Array:
    if values.dtype.kind not in _FITTING_KINDS[wanted.kind]:
        raise SignatureMismatchError.of_input(
            spec.name,
            expected=f"values of {spec.datatype}",
            found=f"values of {name_of(values.dtype)}",
        )
    if wanted.kind in "iu" and values.size:
        limits = np.iinfo(wanted.numpy)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise _does_not_fit(spec)
    with np.errstate(over="ignore"):  # a too large number becomes infinite, and is refused
        return values.astype(wanted.numpy)


def _of_values(spec: TensorSpec, rows: list[object], wanted: Datatype) -> Array:
    """Look at the type of every value first: numpy would make 1 of true, and "1" of a number."""
    allowed = _FITTING_TYPES[wanted.kind]
    for place, row in enumerate(rows):
        if not _leaf_types(row) <= allowed:
            offender = next(leaf for leaf in _leaves(row) if type(leaf) not in allowed)
            raise SignatureMismatchError.of_input(
                spec.name,
                expected=f"values of {spec.datatype}",
                found=f"{_as_json(offender)} in row {place}",
            )
    try:
        with np.errstate(over="ignore"):  # as above
            # BF16 by way of FP64: what it is made of itself may be no integer beyond 64 bits.
            direct = np.float64 if wanted.name == "BF16" else wanted.numpy
            return np.array(rows, dtype=direct).astype(wanted.numpy, copy=False)
    except OverflowError as error:  # an integer out of range
        raise _does_not_fit(spec) from error
    except ValueError as error:  # numpy cannot stack them
        raise SignatureMismatchError.of_input(
            spec.name,
            expected=f"rows of the shape {list(spec.row_shape)}",
            found="rows of different shapes",
        ) from error


def _plain(value: object) -> object:
    """Make lists of arrays, which a table's column of lists holds, and text of bytes."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value] if _leaf_types(value) & {bytes} else value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value  # no type that fits, so that it is refused by row
    return value


def _leaf_types(value: object) -> set[type]:
    if not isinstance(value, list):
        return {type(value)}
    types = set(map(type, value))
    return types if list not in types else set().union(*map(_leaf_types, value))


def _leaves(value: object) -> Iterator[object]:
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def _does_not_fit(spec: TensorSpec) -> SignatureMismatchError:
    return SignatureMismatchError.of_input(
        spec.name,
        expected=f"finite numbers within the range of {spec.datatype}",
        found="a number that does not fit",
    )


def _as_json(value: object) -> str:
    """Show a value as the caller wrote it."""
    if isinstance(value, bytes):
        return "bytes that are no UTF-8 text"
    return msgspec.json.encode(value).decode()[:60]


def _describe(row: object) -> str:
    return f"an object with {sorted(map(str, row))}" if isinstance(row, Mapping) else _as_json(row)
