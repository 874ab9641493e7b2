"""What a model reads and writes, and the check of a batch against it."""

from collections.abc import Collection, Mapping
from typing import Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

from tidegate.errors import RequestRejectedError
from tidegate.tensors.datatypes import DATATYPES, name_of

VARIABLE = -1
"""A dimension that may have any length; the leading one of a batch is the rows."""

_DTYPES: Final = {name: np.dtype(each.numpy) for name, each in DATATYPES.items()}
"""To make one anew takes as long as the rest of a check."""


class SignatureMismatchError(RequestRejectedError):
    """A tensor that is sound in itself but not what this model reads."""

    code = "signature_mismatch"
    input: str
    expected: str
    found: str

    @classmethod
    def of_input(cls, name: str, *, expected: str, found: str) -> Self:
        """Describe one input by what the signature asks for and what came."""
        error = cls(f"Input {name!r}: expected {expected}, found {found}.")
        error.input, error.expected, error.found = name, expected, found
        return error


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name, datatype and shape of one input or output."""

    name: str
    datatype: str
    """A key of ``DATATYPES``."""
    shape: tuple[int, ...]
    """``-1`` marks a variable dimension; the leading one, the rows, is included."""

    def __post_init__(self) -> None:
        """Refuse a datatype or a dimension that means nothing."""
        if self.datatype not in DATATYPES:
            raise ValueError(f"{self.name}: unknown datatype {self.datatype!r}")
        if any(size < VARIABLE for size in self.shape):
            raise ValueError(f"{self.name}: shape {self.shape} has a dimension below -1")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row: everything after the leading dimension."""
        return self.shape[1:]

    def __str__(self) -> str:
        return f"{self.datatype} {list(self.shape)}"

    def check(self, values: npt.NDArray[np.generic]) -> None:
        """Accept a batch of this tensor, ``(rows, …)`` of the right numpy type.

        Raises:
            SignatureMismatchError: The type, rank or a fixed dimension differs; the leading
                dimension, the rows, is not looked at.
        """
        if values.dtype != _DTYPES[self.datatype]:
            raise SignatureMismatchError.of_input(
                self.name, expected=self.datatype, found=name_of(values.dtype)
            )
        if not self._fits(values.shape):
            raise SignatureMismatchError.of_input(
                self.name,
                expected=f"shape {[VARIABLE, *self.row_shape]}",
                found=f"shape {list(values.shape)}",
            )

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if len(shape) != len(self.shape):
            return False
        found, wanted = shape[1:], self.shape[1:]
        return found == wanted or all(  # the first where only the rows vary, which is the rule
            want in {VARIABLE, have} for want, have in zip(wanted, found, strict=True)
        )


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All inputs and outputs of a model, in its own order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def __str__(self) -> str:
        """Return what a person compares: names with their types, inputs before outputs."""
        sides = (self.inputs, self.outputs)
        return " -> ".join(", ".join(f"{s.name} {s}" for s in side) for side in sides)

    def input(self, name: str) -> TensorSpec | None:
        """Find an input by name."""
        return next((spec for spec in self.inputs if spec.name == name), None)

    def check(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> int:
        """Accept one batch and count its rows.

        Args:
            inputs: One array ``(rows, …)`` per input of the signature, and no other.

        Returns:
            The leading dimension that all inputs share, at least 1.

        Raises:
            SignatureMismatchError: A name, type, shape or row count differs.
        """
        counts: set[int] = set()
        for spec in self.inputs:
            values = inputs.get(spec.name)
            if values is None:
                raise self._other_inputs(inputs)
            spec.check(values)
            counts.add(values.shape[0])
        if len(inputs) != len(self.inputs):
            raise self._other_inputs(inputs)
        if len(counts) != 1 or 0 in counts:
            rows = {spec.name: inputs[spec.name].shape[0] for spec in self.inputs}
            raise SignatureMismatchError.of_input(
                self.inputs[0].name,
                expected="the same number of rows, at least 1, in every input",
                found=f"{rows}",
            )
        return counts.pop()

    def _other_inputs(self, inputs: Collection[str]) -> SignatureMismatchError:
        expected = [spec.name for spec in self.inputs]
        name = next(n for n in [*inputs, *expected] if n not in inputs or n not in expected)
        return SignatureMismatchError.of_input(
            name, expected=f"the inputs {expected}", found=f"{list(inputs)}"
        )
