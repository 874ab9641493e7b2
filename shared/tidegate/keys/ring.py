"""The keys of one file, as they were when it last made sense."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.clock import WallClock
from tidegate.keys.errors import KeyFileError, UnauthenticatedError
from tidegate.keys.file import load_keys
from tidegate.keys.key import Key, Token
from tidegate.observability import get_logger

_log: Final = get_logger(__name__)

REREAD_S: Final = 1.0
"""How long a revoked key may go on working."""


class _Seen(NamedTuple):
    """By what a file is known to have changed: Kubernetes and ``rename`` make a new inode."""

    inode: int
    mtime_ns: int
    size_bytes: int


class Keyring:
    """Answers whose key it is that somebody shows."""

    def __init__(self, file: Path, clock: WallClock) -> None:
        """Read the file, which blocks.

        Raises:
            KeyFileError: It cannot be read; nothing could be opened with it.
        """
        self._file = file
        self._clock = clock
        self._seen = _look_at(file)
        self._keys = _by_id(file)

    def find(self, token: Token) -> Key:
        """Return the key that somebody holds.

        Raises:
            UnauthenticatedError: It is none of these, or its time is over.
        """
        key = self._keys.get(token.id)
        if not token.opens(key) or key is None:
            raise UnauthenticatedError(
                "This key is not known here: it is misspelt, revoked or of another server."
            )
        if key.is_expired(self._clock.utc_now()):
            raise UnauthenticatedError(f"This key ended at {key.expires_at:%Y-%m-%d %H:%M} UTC.")
        return key

    def reread(self) -> None:
        """Take over what has changed in the file, if it makes sense; blocks."""
        seen = _look_at(self._file)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys = _by_id(self._file)
        except KeyFileError as error:
            _log.error("keys_unreadable", reason=str(error), kept=len(self._keys))
        else:
            _log.info("keys_read", keys=len(self._keys))

    async def follow(self) -> None:
        """Read the file again whenever it has changed, for ever; cancel it to end it.

        No event tells of a change on every kind of volume, hence one ``stat`` a second.
        """
        while True:
            await asyncio.sleep(REREAD_S)
            await asyncio.to_thread(self.reread)


def _look_at(file: Path) -> _Seen | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return _Seen(found.st_ino, found.st_mtime_ns, found.st_size)


def _by_id(file: Path) -> Mapping[str, Key]:
    return {key.id: key for key in load_keys(file).keys}
