"""The port to object storage: a few calls, and every write is conditional.

Object storage has no rename and no lock. Whatever must happen once is one conditional write of
one object (``put_if_absent`` or ``replace``), and of N writers exactly one is told ``Written``.
There is no unconditional write, so nobody overwrites anybody by accident.

Calls are synchronous and may be made from any thread. An expected outcome (missing, refused) is
a value; an exception means that the store could not be asked.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, Self, TypeAlias

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

    @classmethod
    def of_object(cls, key: str, *, url: str, expected: str) -> Self:
        """Describe the object that no longer has the etag ``expected``."""
        return cls(
            f"{key} in {url} is no longer the object it was (etag {expected}): it was changed or "
            "deleted after it was first looked at. Read a copy that nobody writes to, or start "
            "again on what is there now."
        )


class StoreUnavailableError(PartUnavailableError):
    """The store could not be asked: unreachable, credentials refused, disk full, and so on."""


class LinkLeadsOutError(StoreUnavailableError):
    """A symbolic link leads out of the store; asking again changes nothing about it."""


class StoreBusyError(StoreUnavailableError):
    """The store throttled, was overloaded, or did not answer: a later try may well succeed."""


class StoreOverloadedError(StoreBusyError):
    """It replied that it does not want to now: so it is there, and its address is right."""


Wanted: TypeAlias = Callable[[str], bool]
"""Says of a key, or of a folder with its slash, whether a listing needs it. Of what is below a
folder that it says no to, it says no to all."""


def everything(_: str) -> bool:
    """Want every key."""
    return True


class ObjectStore(Protocol):
    """A flat space of keys under one URL.

    Keys are relative, of segments joined by ``/``; ``check_key`` says what they may hold. A key
    is never also a folder of another (``a`` beside ``a/b``): a disk cannot hold both.
    Every call may raise ``StoreUnavailableError``, and ``InvalidKeyError`` for what is no key.
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
        """Delete an object; one that is not there is no error.

        Not for objects under compare-and-swap: a ``replace`` in flight may bring one back.
        """
        ...

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        """Yield the keys that begin with ``prefix``, in the order of their bytes; ``""`` for all.

        A prefix is a string, not a folder: ``"a/b"`` also finds ``"a/bc"``. What is created or
        deleted during the listing may or may not be in it; everything else is, once.

        Args:
            prefix: What the keys begin with.
            wanted: What it says no to is left out. A store that has folders does not look into
                those, so that nothing is wrong with a listing because of what nobody wants.
        """
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield what the keys with this prefix have up to their next slash, each once, in order.

        With the prefix ``"jobs/"`` of ``"jobs/1/plan"`` that is ``"jobs/1/"``. However many keys
        lie in a folder, it costs no more. In a local store nothing may lie in it any more.
        """
        ...

    def local_path(self, key: str) -> Path | None:
        """Say where the object lies on this machine's disk; ``None`` if it must be fetched."""
        ...


RESERVED_NAME: Final = ".tidegate-"
"""Begins the names of a local store's side files: refused in keys, and listed by no store."""
_MAX_KEY_BYTES: Final = 1024
"""Amazon S3's limit, which other stores share."""


def check_key(key: str) -> str:
    """Return the key if every store can hold it and it stays inside.

    Raises:
        InvalidKeyError: A segment is empty, ``.`` or ``..``, holds a backslash or NUL or begins
            with ``.tidegate-``; or the key has more than 1024 bytes in UTF-8, or none at all.
    """
    for part in key.split("/"):
        if part in {"", ".", ".."} or "\\" in part or "\0" in part:
            raise InvalidKeyError(f"{key!r} is no key: it could lead out of the store")
        if part.startswith(RESERVED_NAME):
            raise InvalidKeyError(f"{key!r} is no key: names in {RESERVED_NAME}* are reserved")
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"{key!r} is no key: it is not valid Unicode") from error
    if size_bytes > _MAX_KEY_BYTES:
        raise InvalidKeyError(
            f"{key[:80]!r}… is no key: it has {size_bytes} bytes, more than {_MAX_KEY_BYTES}"
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix if keys may begin with it; it may end anywhere within a segment.

    Raises:
        InvalidKeyError: No key could begin like that, since its folders are no key.
    """
    folder, slash, _ = prefix.rpartition("/")
    if slash:
        check_key(folder)
    return prefix


def usable_keys(keys: Iterable[str], *, url: str) -> Iterator[str]:
    """Yield what a listing may show: without side files and the folder markers of S3 consoles.

    Raises:
        StoreUnavailableError: Something there cannot be named by a key. Passing over it would
            lose rows in silence.
    """
    for key in keys:
        if key.endswith("/") or f"/{RESERVED_NAME}" in f"/{key}":
            continue
        try:
            yield check_key(key)
        except InvalidKeyError as error:
            raise StoreUnavailableError(
                f"{url} cannot be listed: {error}. Rename or move that object, then repeat."
            ) from error


def usable_folders(folders: Iterable[str], *, url: str) -> Iterator[str]:
    """Yield the folders that ``usable_keys`` would yield keys from, each with its slash.

    Raises:
        StoreUnavailableError: As for keys.
    """
    keys = (folder.removesuffix("/") for folder in folders)
    return (f"{key}/" for key in usable_keys(keys, url=url))
