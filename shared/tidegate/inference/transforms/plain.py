"""No transform: a column is an input, a value is what the tensor holds."""

from collections.abc import Mapping, Sequence

import numpy as np

from tidegate.inference.arrays import Array
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature, SignatureMismatchError, TensorSpec


class PlainReader:
    """Reads each input of the signature from the column of its name."""

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
    wanted = np.dtype(DATATYPES[spec.datatype].numpy)
    try:
        found = np.array(_unpack(values), dtype=object if wanted.kind == "O" else None)
    except (ValueError, OverflowError) as error:  # rows of different lengths, or huge integers
        raise SignatureMismatchError.of_input(
            spec.name, expected=f"rows of the shape {list(spec.row_shape)}", found=str(error)
        ) from error
    if not _may_become(found.dtype, wanted) or (wanted.kind == "O" and not _is_text(found)):
        raise SignatureMismatchError.of_input(
            spec.name,
            expected=f"values of {spec.datatype}",
            found=f"values like {_first(found)!r:.60}",
        )
    tensor = _cast(spec, found, wanted)
    spec.check(tensor)
    return np.ascontiguousarray(tensor)


def _unpack(values: Array | list[object]) -> Array | list[object]:
    """Let numpy stack a column of lists, which is an object array of arrays."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


def _may_become(found: np.dtype[np.generic], wanted: np.dtype[np.generic]) -> bool:
    """Numbers become numbers of a kind that can hold them; text and booleans stay themselves."""
    if wanted.kind in {"O", found.kind}:
        return True
    return {"f": "iuf", "i": "iu", "u": "iu"}.get(wanted.kind, "").find(found.kind) >= 0


def _is_text(values: Array) -> bool:
    """Look at each value: onnxruntime would make "None" of a missing one and "1" of a number."""
    return all(isinstance(value, (str, bytes)) for value in values.flat)


def _cast(spec: TensorSpec, found: Array, wanted: np.dtype[np.generic]) -> Array:
    with np.errstate(over="ignore"):  # a too large number becomes infinite, and is refused below
        tensor: Array = found.astype(wanted)
    same = np.array_equal(tensor, found) if wanted.kind in "iu" else True
    finite = np.isfinite(tensor).all() if wanted.kind == "f" else True
    if not (same and finite):
        raise SignatureMismatchError.of_input(
            spec.name,
            expected=f"finite numbers within the range of {spec.datatype}",
            found="a number that does not fit",
        )
    return tensor


def _first(values: Array) -> object:
    return values.flat[0] if values.size else None


def _describe(row: object) -> str:
    return f"an object with {sorted(map(str, row))}" if isinstance(row, Mapping) else f"{row!r:.60}"
