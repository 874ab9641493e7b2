"""Rows that make the model fail, remembered for a while.

A batch with such a row is run again in halves until the row is found. A caller who sends it again
and again, as clients that retry do, would cost a few extra calls each time; a row that is known is
refused at once. Rows are known by a hash alone: what callers send is not kept.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Self

from tidegate.errors import RequestRejectedError
from tidegate.inference.arrays import Array, Tensors
from tidegate.units import NS_PER_SECOND, Nanoseconds

KEPT_NS: Final = Nanoseconds(300 * NS_PER_SECOND)
"""Longer than clients retry; short enough that a wrong verdict is no lasting one."""
MOST_ROWS: Final = 1_024
"""About 150 KiB; beyond, the row that was met longest ago is forgotten."""


class PoisonInputError(RequestRejectedError):
    """One row makes the model fail, while the rows beside it are answered."""

    code = "poison_input"
    row: int
    """Counted from 0, in the request."""

    @classmethod
    def of_row(cls, row: int) -> Self:
        """Describe one request by the row that is to blame."""
        error = cls(
            f"Row {row} (counted from 0) makes the model fail while rows beside it are answered; "
            "correct it or leave it out, and send the others again."
        )
        error.row = row
        return error


class PoisonMemory:
    """The poison rows of one model version."""

    def __init__(self, *, kept_ns: int = KEPT_NS, most_rows: int = MOST_ROWS) -> None:
        self._kept_ns = kept_ns
        self._most_rows = most_rows
        self._until_ns: OrderedDict[bytes, int] = OrderedDict()
        """By hash, in the order in which they were met last."""

    def __len__(self) -> int:
        """Count what is remembered."""
        return len(self._until_ns)

    def remember(self, inputs: Tensors, row: int, now_ns: int) -> None:
        """Remember one row of a request."""
        (digest,) = _digests({name: array[row : row + 1] for name, array in inputs.items()})
        self._until_ns[digest] = now_ns + self._kept_ns
        self._until_ns.move_to_end(digest)
        if len(self._until_ns) > self._most_rows:
            self._until_ns.popitem(last=False)

    def check(self, inputs: Tensors, now_ns: int) -> None:
        """Refuse a request with a row that is remembered; costs nothing while none is.

        Raises:
            PoisonInputError: With the first such row.
        """
        if not self._until_ns:
            return
        self._forget(now_ns)
        for row, digest in enumerate(_digests(inputs) if self._until_ns else ()):
            if digest in self._until_ns:
                raise PoisonInputError.of_row(row)

    def _forget(self, now_ns: int) -> None:
        while self._until_ns and next(iter(self._until_ns.values())) <= now_ns:
            self._until_ns.popitem(last=False)


def _digests(inputs: Tensors) -> Iterator[bytes]:
    """Yield sha256 of each row: names, datatypes, shapes and bytes of all its inputs."""
    names = sorted(inputs)
    head = repr([(name, inputs[name].dtype.str, inputs[name].shape[1:]) for name in names]).encode()
    for row in range(len(inputs[names[0]])):
        digest = sha256(head)
        for name in names:
            for part in _parts(inputs[name][row : row + 1]):
                digest.update(part)
        yield digest.digest()


def _parts(row: Array) -> Iterator[bytes]:
    """Yield the bytes of one row of one input, so that no two rows read the same."""
    if row.dtype != object:
        yield row.tobytes()
        return
    for item in row.flat:
        content = item.encode() if isinstance(item, str) else item
        yield b"%d:" % len(content)
        yield content
