"""What a transform is to the services."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.inference.arrays import Array, Tensors


class RowReader(Protocol):
    """From people's rows to the model's inputs.

    Pure, and the same values give the same bytes whichever of the two calls they come by.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that a row is read from."""
        ...

    @property
    def reads_numbers(self) -> bool:
        """Whether a row may be a list of numbers that become the model's one input as they are."""
        ...

    def from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Read JSON values, one row each; see ``Model.tensors_from_instances``."""
        ...

    def from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Read a table's columns; see ``Model.tensors_from_columns``."""
        ...


class RowWriter(Protocol):
    """From the model's outputs to named columns for people."""

    def present(self, outputs: Tensors, inputs: Tensors) -> dict[str, Array]:
        """Name the outputs and add what a transform derives; see ``Model.present``.

        Args:
            outputs: One array ``(rows, …)`` per output.
            inputs: What they were computed from: they tell padding from tokens.
        """
        ...
