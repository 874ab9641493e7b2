"""A seekable file over ranged reads, for readers that jump (parquet) and for those that stream."""

import io
from collections.abc import Callable
from typing import BinaryIO, Final

READ_AHEAD_BYTES: Final = 8 << 20
"""One request costs tens of milliseconds, in which a machine reads about this much; a footer or a
run of small column chunks then takes one request instead of dozens."""


def open_ranges(
    fetch: Callable[[int, int], bytes],
    *,
    size_bytes: int,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> BinaryIO:
    """Open an object of known size for buffered reading.

    Args:
        fetch: Called with a start and a length (both in bytes, never past the end); returns
            exactly these bytes or raises.
        size_bytes: Of the whole object.
        read_ahead_bytes: The least that is asked for, short of the end; held in memory.
    """
    return io.BufferedReader(_Ranges(fetch, size_bytes), read_ahead_bytes)


class _Ranges(io.RawIOBase):
    """Each read is one request; the buffer above decides how large."""

    def __init__(self, fetch: Callable[[int, int], bytes], size_bytes: int) -> None:
        self._fetch = fetch
        self._size_bytes = size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        if origin + offset < 0:
            raise ValueError(f"cannot seek to {origin + offset}, before the start")
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a view is what BufferedReader passes
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Read the rest at once; the inherited way makes one request per 8 KiB."""
        return self._read(self._size_bytes - self._at)

    def _read(self, length: int) -> bytes:
        length = min(length, self._size_bytes - self._at)
        if length <= 0:
            return b""
        content = self._fetch(self._at, length)
        self._at += length
        return content
