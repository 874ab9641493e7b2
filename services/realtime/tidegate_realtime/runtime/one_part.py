"""What callers ask a driver that may have several parts, as ``runtime.buckets`` has."""

from typing import Self

from tidegate.inference.arrays import Tensors


class OnePart:
    """A driver of which rows of all lengths are one part: itself."""

    @property
    def parts(self) -> tuple[Self]:
        """Itself."""
        return (self,)

    def part_for(self, inputs: Tensors) -> Self:
        """Return itself, whatever the rows are."""
        del inputs
        return self

    @property
    def busiest(self) -> Self:
        """Itself, likewise."""
        return self
