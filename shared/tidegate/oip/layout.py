"""How a body is divided into JSON and the bytes of tensors, and what each tensor takes of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

from tidegate.oip.errors import BinaryLayoutError
from tidegate.oip.parameters import Parameter

Array = npt.NDArray[Any]

JSON_LENGTH_HEADER: Final = "inference-header-content-length"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def json_length(said: Sequence[str], body_bytes: int) -> int:
    """Return how many bytes of a body are JSON.

    Args:
        said: The values of ``Inference-Header-Content-Length``, one for each time that it came.
        body_bytes: Length of the body, which is all JSON where the header is absent.

    Raises:
        BinaryLayoutError: The header came twice, or is no plain number up to that length.
    """
    if not said:
        return body_bytes
    if len(said) > 1 or not _NUMBER.fullmatch(said[0]) or int(said[0]) > body_bytes:
        shown = ", ".join(said)[:60]
        raise BinaryLayoutError(
            f"Inference-Header-Content-Length is {shown!r}; it must be there once, and be a whole "
            f"number from 0 to the length of the body, {body_bytes}."
        )
    return int(said[0])


class Blobs:
    """What follows the JSON of a body, given out from front to back."""

    __slots__ = ("_body", "_place")

    def __init__(self, body: bytes, begin: int) -> None:
        self._body = memoryview(body)
        self._place = begin

    def take(self, name: str, size: Parameter) -> memoryview:
        """Return the next bytes, as a view.

        Args:
            name: Of the tensor that they belong to.
            size: Its ``binary_data_size``, as it came.

        Raises:
            BinaryLayoutError: That is no number of bytes, or more than are left.
        """
        left = len(self._body) - self._place
        if type(size) is not int or not 0 <= size <= left:
            raise BinaryLayoutError(
                f"{name!r}: binary_data_size is {str(size)[:40]!r}, and {left} bytes are left "
                "behind the JSON and the inputs before this one."
            )
        begin, self._place = self._place, self._place + size
        return self._body[begin : self._place]

    def check_end(self) -> None:
        """Be sure that every byte belongs to a tensor.

        Raises:
            BinaryLayoutError: Some are left over.
        """
        left = len(self._body) - self._place
        if left:
            raise BinaryLayoutError(
                f"{left} bytes follow those of the last input; the sizes of all inputs must add "
                "up to what follows the JSON."
            )


class Layout(msgspec.Struct, frozen=True):
    """Where the tensors lie in the bytes behind one JSON, as a request with it has shown.

    Another body with the same JSON and as many bytes has the same tensors but for their values.
    """

    places: tuple[tuple[str, tuple[int, ...], np.dtype[Any], int], ...]
    """Name, shape, datatype and first byte of each."""
    rows: int
    size_bytes: int

    @classmethod
    def of(cls, tensors: Mapping[str, Array], rows: int) -> Self | None:
        """Return the layout of a request whose tensors were read from its bytes, in this order.

        ``None`` where each body must be looked at: not every byte is a BOOL, and the items of
        BYTES have their own lengths.
        """
        places = []
        begin = 0
        for name, array in tensors.items():
            if array.dtype.kind in "bO":
                return None
            places.append((name, array.shape, array.dtype, begin))
            begin += array.nbytes
        return cls(tuple(places), rows, begin)

    def tensors(self, body: bytes, begin: int) -> dict[str, Array]:
        """Return them, as views of a body whose JSON ends where they begin."""
        return {
            name: np.ndarray(shape, dtype, body, begin + place)
            for name, shape, dtype, place in self.places
        }
