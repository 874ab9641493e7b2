"""``tabular``: named columns of numbers, booleans and categories become one input.

Both ways in build one column at a time and cast it with the same code, so that the same value
gives the same bits whether it came as JSON or from a table.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Final

import numpy as np

from tidegate.artifacts.manifest import Column, TabularSpec
from tidegate.inference.arrays import Array
from tidegate.tensors.datatypes import DATATYPES, name_of
from tidegate.tensors.signature import Signature, SignatureMismatchError

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "category": (str,),
}
_NUMPY_KINDS = {"number": "iuf", "integer": "iu", "boolean": "b", "category": ""}
"""Array kinds that need no look at each value."""

MISSING_VALUE: Final = "missing_value"
"""Of a row without a value that it needs, where rows have reasons of their own."""
_FEW: Final = 5
_MANY_ROWS: Final = 64
"""Where both ways of reading instances take about as long."""


class MissingValueError(SignatureMismatchError):
    """A column without a default has no value."""


class TabularReader:
    """Reads the manifest's columns, in its order; further columns are ignored."""

    def __init__(self, spec: TabularSpec, signature: Signature) -> None:
        found = signature.input(spec.input)
        if found is None:
            raise ValueError(f"[tabular] input {spec.input!r} is none of {signature}")
        self._spec = spec
        self._dtype = np.dtype(DATATYPES[found.datatype].numpy)
        self.columns = tuple(column.name for column in spec.columns)
        self._required = frozenset(c.name for c in spec.columns if c.default is None)
        self.reads_numbers = (
            all(column.type == "number" for column in spec.columns)
            and self._dtype.kind == "f"
            and found.row_shape == (len(spec.columns),)
        )

    def from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Read objects of named columns, or lists in the order of the columns.

        Few rows go value by value, since an array for each column of a single row takes ten times
        as long; many go column by column, where it takes a tenth.
        """
        rows = [self._named(row, place) for place, row in enumerate(instances)]
        if len(rows) >= _MANY_ROWS:
            return self._stack({name: [row.get(name) for row in rows] for name in self.columns})
        encoded = [self._encoded(row, place) for place, row in enumerate(rows)]
        with np.errstate(over="ignore"):
            return self._finished(np.array(encoded).astype(self._dtype))

    def _encoded(self, row: Mapping[str, object], place: int) -> list[float]:
        """Turn the values of a row into numbers; a number is what it was, which most are."""
        return [
            value
            if type(value := row.get(column.name)) is float
            and column.type == "number"
            and not isnan(value)
            else _value(column, value, place)
            for column in self._spec.columns
        ]

    def _named(self, row: object, place: int) -> Mapping[str, object]:
        if isinstance(row, Mapping):
            if not self._required <= row.keys():
                raise self._incomplete(row, place)
            return row
        if isinstance(row, list) and len(row) == len(self.columns):
            return dict(zip(self.columns, row, strict=True))
        raise SignatureMismatchError.of_input(
            self._spec.input,
            expected=f"instance {place} to be an object of named columns, or a list of "
            f"{len(self.columns)} values in the order of {list(self.columns[:3])}…",
            found=f"a list of {len(row)}" if isinstance(row, list) else f"{row!r:.60}",
        )

    def _incomplete(self, row: Mapping[str, object], place: int) -> SignatureMismatchError:
        """Name every column that is missing, and those that may be misspelt ones."""
        missing = [name for name in self.columns if name in self._required - row.keys()]
        unread = sorted(row.keys() - set(self.columns))
        hint = f", but {_listed(unread)}, which the model does not read" if unread else ""
        return SignatureMismatchError.of_input(
            missing[0],
            expected=f"a value in row {place}; it has no default",
            found=f"no {_listed(missing)}{hint}",
        )

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read arrays ``(rows,)``."""
        return self._stack(columns)

    def _stack(self, columns: Mapping[str, Array | list[object]]) -> dict[str, Array]:
        rows = len(columns[self.columns[0]])
        stacked = np.empty((rows, len(self.columns)), dtype=self._dtype)
        for place, column in enumerate(self._spec.columns):
            stacked[:, place] = self._encode(column, columns[column.name])
        return self._finished(stacked)

    def _finished(self, stacked: Array) -> dict[str, Array]:
        if self._dtype.kind == "f" and not np.isfinite(stacked).all():
            self._refuse_infinite(stacked)
        return {self._spec.input: stacked}

    def _encode(self, column: Column, values: Array | list[object]) -> Array:
        """Return the column as numbers ``(rows,)``; NaN and ``None`` are missing values."""
        numbers = _numbers(column, values)
        if numbers is None:
            listed = values.tolist() if isinstance(values, np.ndarray) else values
            numbers = np.array([_value(column, value, row) for row, value in enumerate(listed)])
        with np.errstate(over="ignore"):  # an infinite result is refused for the whole batch
            return numbers.astype(self._dtype)

    def _refuse_infinite(self, stacked: Array) -> None:
        row, place = (int(where) for where in np.argwhere(~np.isfinite(stacked))[0])
        raise SignatureMismatchError.of_input(
            self.columns[place],
            expected=f"a finite number within the range of {name_of(self._dtype)} in row {row}",
            found="a larger one",
        )


def _listed(names: Sequence[str]) -> str:
    """Show a few names; a row may have thousands."""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(f"{name:.64}" for name in names[:_FEW]) + more


def _numbers(column: Column, values: Array | list[object]) -> Array | None:
    """Return values that need no look at each as float64; ``None`` if they do.

    Everything goes by float64, like a number from JSON, so that it is rounded alike on both paths.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in _NUMPY_KINDS[column.type]:
            return None
        return _fill(column, values) if values.dtype.kind == "f" else values.astype(np.float64)
    if column.categories or not set(map(type, values)) <= set(_PYTHON_TYPES[column.type]):
        return None
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer of hundreds of digits, to be named
        return None


def _fill(column: Column, values: Array) -> Array:
    missing = np.isnan(values)
    if not missing.any():
        return values
    return np.where(missing, _value(column, None, int(missing.argmax())), values)


def _value(column: Column, value: object, row: int) -> float:
    """Check one value and turn it into a number."""
    missing = value is None or (isinstance(value, float) and np.isnan(value))
    chosen = column.default if missing else value
    known = isinstance(chosen, _PYTHON_TYPES[column.type])
    if column.type != "boolean" and isinstance(chosen, bool):
        known = False  # True is an int to Python, not to people
    if known and column.categories is not None:
        known = chosen in column.categories
    if not known:
        raise _wrong_value(column, value, row, missing=missing)
    try:
        return float(column.categories.index(str(chosen)) if column.categories else chosen)  # type: ignore[arg-type] # checked by _PYTHON_TYPES
    except OverflowError as error:  # an integer of hundreds of digits
        raise _wrong_value(column, value, row, missing=False) from error


def _wrong_value(
    column: Column, value: object, row: int, *, missing: bool
) -> SignatureMismatchError:
    named = "an integer" if column.type == "integer" else f"a {column.type}"
    kind = f"one of {list(column.categories)}" if column.categories else named
    error = MissingValueError if missing else SignatureMismatchError
    return error.of_input(
        column.name,
        expected=f"{kind} in row {row}",
        found="no value, and the column has no default" if missing else f"{value!r:.60}",
    )
