"""The port to object storage: seven calls, and every write is conditional.

Object storage has no rename and no lock. Whatever must happen once is one conditional write of
one object (``put_if_absent`` or ``replace``), and of N writers exactly one is told ``Written``.
There is no unconditional write, so nobody overwrites anybody by accident.

Calls are synchronous and may be made from any thread. An expected outcome (missing, refused) is
a value; an exception means that the store could not be asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tidegate.errors import JobError, PartUnavailableError


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectHead:
    """What is known of an object without reading it."""

    key: str
    etag: str
    """Changes whenever the content does. Opaque: compare it, never parse it."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """A small object, read whole."""

    etag: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The condition held, and the object is durable."""

    etag: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition did not hold: an object is there already, is gone, or has another etag.

    A lost reply may have been retried below this port, so that a refused write can be one's own:
    whoever must know reads the object and looks for the random id it wrote.
    """


class InvalidKeyError(ValueError):
    """A key that could lead out of the store; always a bug of the caller."""


class ObjectChangedError(JobError):
    """An object is no longer the one whose etag was noted: changed or deleted meanwhile."""

    code = "input_changed"


class StoreUnavailableError(PartUnavailableError):
    """The store could not be asked: unreachable, credentials refused, disk full, and so on."""


class ObjectStore(Protocol):
    """A flat space of keys under one URL.

    Keys are relative, of segments joined by ``/``; no segment is empty, ``.`` or ``..``.
    Every call may raise ``StoreUnavailableError``, and ``InvalidKeyError`` for a key like that.
    """

    @property
    def url(self) -> str:
        """Where the keys live, as a person would write it; no credentials in it."""
        ...

    def head(self, key: str) -> ObjectHead | None:
        """Return an object's etag and size; ``None`` if there is none."""
        ...

    def get(self, key: str) -> StoredObject | None:
        """Read a small object whole, with the etag of just these bytes; ``None`` if missing."""
        ...

    def open(self, key: str, *, etag: str) -> BinaryIO:
        """Open an object for reading and seeking, pinned to one etag; the caller closes it.

        Raises:
            ObjectChangedError: Here or while reading: the object is gone or has another etag.
        """
        ...

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        """Create an object, whole and durable or not at all; a path means that file's bytes."""
        ...

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        """Replace the object that has this etag (compare-and-swap)."""
        ...

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        """Copy within the store, without moving bytes through this machine.

        ``Refused`` if the source is gone or has another etag. An existing target may be
        overwritten or kept: only copy to a key that can hold nothing but these bytes.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with ``prefix`` in ascending order; ``""`` for all."""
        ...

    def local_path(self, key: str) -> Path | None:
        """Say where the object lies on this machine's disk; ``None`` if it must be fetched."""
        ...


def check_key(key: str) -> str:
    """Return the key if it stays inside the store.

    Raises:
        InvalidKeyError: A segment is empty, ``.`` or ``..``, or holds a backslash or NUL.
    """
    segments = key.split("/")
    if any(part in {"", ".", ".."} or "\\" in part or "\0" in part for part in segments):
        raise InvalidKeyError(f"{key!r} is no key: it could lead out of the store")
    return key
