"""Files that appear whole and flushed to the disk, or not at all.

Bytes go to a side file in the folder where they belong and are flushed. Only then do they get
their name: by ``link``, which fails if the name is taken (``O_EXCL`` alone would show
half-written files), or by ``rename``. Then the folder is flushed, so that the name lasts too.
"""

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from tidegate.clock.system import SystemClock, sleep_ns
from tidegate.objects.port import RESERVED_NAME
from tidegate.units import NS_PER_MS

_BLOCK_BYTES: Final = 1 << 20
_LOCK_RETRY_NS: Final = 2 * NS_PER_MS
"""About one swap (two flushes of an SSD); ``flock`` itself cannot wait for a limited time."""
_NO_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}


@contextmanager
def side_file(folder: Path) -> Iterator[Path]:
    """Offer a name that no listing shows, and remove what bears it at the end."""
    side = folder / f"{RESERVED_NAME}tmp-{secrets.token_hex(8)}"
    try:
        yield side
    finally:
        side.unlink(missing_ok=True)


def write_flushed(side: Path, source: BinaryIO, *, mtime_ns: int | None = None) -> None:
    """Fill a new file up to the end of ``source``; the bytes are on the disk on return."""
    with side.open("xb") as file:
        shutil.copyfileobj(source, file, _BLOCK_BYTES)
        file.flush()
        if mtime_ns is not None:
            os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
        os.fsync(file.fileno())


def name_if_free(side: Path, path: Path) -> bool:
    """Link a side file to its final name; False if a file has that name already.

    Raises:
        FileExistsError: What has the name is no file, so nobody could read what was refused.
    """
    try:
        os.link(side, path)
    except FileExistsError:
        if path.is_file() or not os.path.lexists(path):
            return False
        raise
    flush_folder(path.parent)
    return True


def name_over(side: Path, path: Path) -> None:
    """Rename a side file to its final name; readers see the old file or the new one."""
    side.replace(path)
    flush_folder(path.parent)


def link_or_copy(origin: Path, side: Path) -> None:
    """Give a file a second name without moving a byte, or copy it where links are impossible.

    Either way the second file has the time of modification of the first.
    """
    try:
        os.link(origin, side)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        with origin.open("rb") as source:
            write_flushed(side, source, mtime_ns=os.fstat(source.fileno()).st_mtime_ns)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, each flushed into the one that holds it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    flush_folder(folder.parent)


def flush_folder(folder: Path) -> None:
    """Make the names in a folder last through a power failure."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def lock_of(path: Path, *, wait_ns: int) -> Iterator[None]:
    """Hold the lock of a file, by a side file that is never deleted.

    (Whoever held a deleted one would lock nobody out.)

    Raises:
        BlockingIOError: Somebody else held it for all of ``wait_ns``; names the side file.
    """
    side = path.with_name(f"{RESERVED_NAME}lock-{path.name}")
    give_up_at_ns = SystemClock().now_ns() + wait_ns
    with side.open("ab") as file:
        while not _try_lock(file):
            if SystemClock().now_ns() >= give_up_at_ns:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", str(side))
            sleep_ns(_LOCK_RETRY_NS)
        try:
            yield
        finally:  # closing is not enough: a child forked meanwhile shares the lock
            fcntl.flock(file, fcntl.LOCK_UN)


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
