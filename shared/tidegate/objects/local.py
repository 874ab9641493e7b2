"""An object store on a folder: nothing to install, for one machine or a shared POSIX disk.

Writes follow ``tidegate.objects.durable``. A writer that is killed leaves at most a side file,
whose name no key can have and no listing shows: ``.tidegate-tmp-*`` older than a day may be
deleted by anyone, ``.tidegate-lock-*`` never.

An etag is made of size, time of modification and the first and last 64 KiB, so that it is cheap
for a large file. What it cannot see is an edit *in place*, in the middle of a larger file, that
puts size and time back; this store never edits in place.
"""

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from tidegate.objects.durable import (
    link_or_copy,
    lock_of,
    make_folder,
    name_if_free,
    name_over,
    side_file,
    write_flushed,
)
from tidegate.objects.port import (
    LinkLeadsOutError,
    ObjectChangedError,
    ObjectHead,
    Refused,
    StoredObject,
    StoreUnavailableError,
    Wanted,
    Written,
    check_key,
    check_prefix,
    everything,
    usable_folders,
    usable_keys,
)
from tidegate.units import NS_PER_SECOND, ns_to_seconds

_SAMPLE_BYTES: Final = 64 << 10
"""Of each end of a file; what is under compare-and-swap is smaller than both together."""
_LOCK_WAIT_NS: Final = 10 * NS_PER_SECOND
"""A swap takes milliseconds: whoever waits this long waits for a process that is stopped."""


class LocalObjectStore:
    """The objects under one folder, which need not exist before the first write.

    Symbolic links are followed as long as they stay below the folder; listings show linked
    files but do not enter linked folders (their files stand in their real place already).
    A folder that was there and is gone is a store that is away, not one that is empty.
    """

    def __init__(self, root: Path, *, lock_wait_ns: int = _LOCK_WAIT_NS) -> None:
        self._url = os.path.abspath(root)
        self._root = Path(os.path.realpath(root))
        self._lock_wait_ns = lock_wait_ns
        self._was_there = False
        with self._explaining(""):
            if self._root.exists() and not self._root.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            self._check_there()

    @property
    def url(self) -> str:
        """The folder's absolute path."""
        return self._url

    def head(self, key: str) -> ObjectHead | None:
        """Return etag and size; reads at most 128 KiB of the file."""
        path = self._path_to_read(key)
        with self._explaining(key), _opened(path) as file:
            if not file:
                return None
            size_bytes = os.fstat(file.fileno()).st_size
            return ObjectHead(key=key, etag=_etag_of(file), size_bytes=size_bytes)

    def get(self, key: str) -> StoredObject | None:
        """Read a file whole; the etag belongs to just these bytes."""
        path = self._path_to_read(key)
        with self._explaining(key), _opened(path) as file:
            return StoredObject(etag=_etag_of(file), body=file.read()) if file else None

    def open(self, key: str, *, etag: str) -> BinaryIO:
        """Open a file that has this etag; later writes to the key never show through.

        Raises:
            ObjectChangedError: The file is gone or has another etag.
        """
        path = self._path_to_read(key)
        with self._explaining(key):
            file = _open(path)
            if file and _etag_of(file) == etag:
                return file
            if file:
                file.close()
        raise ObjectChangedError.of_object(key, url=self.url, expected=etag)

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        """Write a side file and link it to the key's name if that is free."""
        path = self._path(key)
        with _reading(body) as source, self._explaining(key):
            if path.is_file():  # spares a large body the way to the disk
                return Refused()
            make_folder(path.parent)
            with side_file(path.parent) as side:
                written = _write(side, source)
                return written if name_if_free(side, path) else Refused()

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        """Under the key's lock: compare, write a side file, rename it over the old one.

        Raises:
            StoreUnavailableError: Also when the lock was not free within the time limit.
        """
        path = self._path_to_read(key)
        with self._explaining(key):
            if _etag_at(path) != etag:  # also: no lock file beside what is not there
                return Refused()
            with lock_of(path, wait_ns=self._lock_wait_ns), side_file(path.parent) as side:
                if _etag_at(path) != etag:
                    return Refused()
                written = _write(side, io.BytesIO(body))
                name_over(side, path)
                return written

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        """Give a file a second name by hard link, so that no byte moves.

        The link is made under a side name first: that pins the bytes whose etag is compared,
        and the rename that follows replaces an existing target, as S3 does.
        """
        origin, path = self._path(source), self._path(target)
        with self._explaining(target):
            if _etag_at(origin) != etag:
                return Refused()
            make_folder(path.parent)
            with side_file(path.parent) as side:
                link_or_copy(origin, side)
                if _etag_at(side) != etag:
                    return Refused()
                name_over(side, path)
                return Written(etag=etag)

    def delete(self, key: str) -> None:
        """Remove the file; folders stay."""
        path = self._path(key)
        with self._explaining(key):
            if path.is_file():
                path.unlink(missing_ok=True)

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        """Walk the folders in order, one at a time.

        Args:
            prefix: See the port.
            wanted: What it says no to is left out: a folder is not entered, a link not followed.

        Raises:
            StoreUnavailableError: Also when a wanted link leads out of the store: what lies there
                cannot be read, and leaving it out would lose rows in silence.
        """
        folder, slash, _ = check_prefix(prefix).rpartition("/")
        with self._explaining(""):
            self._check_there()

        def is_wanted(key: str) -> bool:
            return key.startswith(prefix) and wanted(key)

        return usable_keys(self._walk(folder + slash, is_wanted), url=self.url)

    def folders(self, prefix: str) -> Iterator[str]:
        """Look into one folder."""
        folder, slash, _ = check_prefix(prefix).rpartition("/")
        with self._explaining(""):
            self._check_there()

        def is_wanted(key: str) -> bool:
            return key.startswith(prefix) and key.endswith("/")

        return usable_folders(self._entries(folder + slash, is_wanted), url=self.url)

    def local_path(self, key: str) -> Path:
        """Return where the object lies, or would lie."""
        return self._path(key)

    def _path(self, key: str) -> Path:
        return self._below_root(self._root / check_key(key))

    def _path_to_read(self, key: str) -> Path:
        path = self._path(key)
        with self._explaining(""):
            self._check_there()
        return path

    def _check_there(self) -> None:
        if self._root.exists():
            self._was_there = True
        elif self._was_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def _below_root(self, path: Path) -> Path:
        target = Path(os.path.realpath(path))
        if target.is_relative_to(self._root):
            return path
        raise LinkLeadsOutError(
            f"{path} leads out of {self.url} through a symbolic link, to {target}; only links that "
            "stay below it are followed. Replace the link by what it points to, or name that place "
            "itself."
        )

    def _walk(self, folder: str, wanted: Wanted) -> Iterator[str]:
        """Yield the keys of a folder, which is empty or ends in a slash."""
        for key in self._entries(folder, wanted):
            if key.endswith("/"):
                yield from self._walk(key, wanted)
            else:
                yield key

    def _entries(self, folder: str, wanted: Wanted) -> list[str]:
        with self._explaining(folder):
            self._below_root(self._root / folder)
            return self._sorted_keys(folder, wanted)

    def _sorted_keys(self, folder: str, wanted: Wanted) -> list[str]:
        """Return files, and folders with a slash: as part of a key that is how they sort."""
        keys = []
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    key = folder + entry.name + ("/" if entry.is_dir() else "")
                    if not wanted(key):
                        continue
                    if entry.is_symlink():
                        self._below_root(Path(entry.path))
                    if entry.is_dir(follow_symlinks=False) or entry.is_file():
                        keys.append(key)
        except (FileNotFoundError, NotADirectoryError):  # no such prefix, or deleted meanwhile
            return []
        return sorted(keys)

    @contextmanager
    def _explaining(self, key: str) -> Iterator[None]:
        """The one place where what the operating system says becomes what a person can do."""
        try:
            yield
        except OSError as error:
            raise StoreUnavailableError(
                f"{key or 'the folder'} in the store {self.url}: {error.strerror or error}. "
                f"{self._next_step(error)}"
            ) from error

    def _next_step(self, error: OSError) -> str:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
                free_mib = shutil.disk_usage(_nearest_folder(self._root)).free >> 20
                return (
                    f"Nothing was written. {free_mib} MiB are free on its disk: make room, or "
                    "raise the quota or the limit on file sizes ('ulimit -f'), then repeat."
                )
            case errno.EACCES | errno.EPERM | errno.EROFS:
                return f"Let user id {os.geteuid()} read and write there, or name another store."
            case errno.ENOTDIR | errno.EISDIR | errno.EEXIST:
                return "A file stands where a folder must be, or a folder where a file must be."
            case errno.EWOULDBLOCK:
                return (
                    f"It was not replaced within {ns_to_seconds(self._lock_wait_ns):g} s. Find "
                    f"who holds {error.filename} with 'lslocks'; a process that is stopped has "
                    "to go on or be killed."
                )
            case _:
                return "Check the disk and how it is mounted, then repeat."


def _etag_of(file: BinaryIO) -> str:
    """Build the etag of an open file without moving its position."""
    status = os.fstat(file.fileno())
    tail_at = max(0, status.st_size - _SAMPLE_BYTES)
    digest = hashlib.sha256(os.pread(file.fileno(), _SAMPLE_BYTES, 0))
    digest.update(os.pread(file.fileno(), _SAMPLE_BYTES, tail_at))
    return f"{status.st_size:x}-{status.st_mtime_ns:x}-{digest.hexdigest()[:32]}"


def _etag_at(path: Path) -> str | None:
    with _opened(path) as file:
        return _etag_of(file) if file else None


def _open(path: Path) -> BinaryIO | None:
    """Open a regular file; ``None`` if none is there, be it that a folder is."""
    try:
        return path.open("rb") if path.is_file() else None
    except FileNotFoundError:  # deleted between the two
        return None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | None]:
    with _open(path) or nullcontext() as file:
        yield file


def _reading(body: bytes | Path) -> BinaryIO:
    return io.BytesIO(body) if isinstance(body, bytes) else body.open("rb")


def _write(side: Path, source: BinaryIO) -> Written:
    write_flushed(side, source)
    with side.open("rb") as file:
        return Written(etag=_etag_of(file))


def _nearest_folder(path: Path) -> Path:
    return path if path.exists() else _nearest_folder(path.parent)
