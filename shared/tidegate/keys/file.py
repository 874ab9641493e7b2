"""The file of keys: ``{"schema": 1, "keys": […]}``, replaced as a whole or not at all."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from tidegate.keys.errors import KeyFileError, KeyNotFoundError
from tidegate.keys.key import Key
from tidegate.objects.durable import lock_of, name_over, side_file, write_flushed
from tidegate.units import NS_PER_SECOND

_LOCK_WAIT_NS: Final = 5 * NS_PER_SECOND
_ITS_OWNER_ALONE: Final = 0o600


class KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All keys; see ``docs/formats.md``."""

    schema: Literal[1] = 1
    keys: tuple[Key, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two keys of one id: revoking it would leave the other."""
        ids = [key.id for key in self.keys]
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            raise ValueError(f"the key {twice[0]} is there twice")


def load_keys(file: Path) -> KeyFile:
    """Read the file.

    Raises:
        KeyFileError: It is not there, cannot be read, or is not what ``tidegate keys`` writes.
    """
    try:
        return parse_keys(file.read_bytes(), where=str(file))
    except FileNotFoundError as error:
        raise KeyFileError(
            f"{file}: there is no such file; tidegate keys create --file {file} makes it"
        ) from error
    except OSError as error:
        raise KeyFileError(f"{file} cannot be read: {error.strerror}") from error


def parse_keys(content: bytes, *, where: str) -> KeyFile:
    """Read the bytes of the file.

    Raises:
        KeyFileError: They are not what ``tidegate keys`` writes.
    """
    try:
        return msgspec.json.decode(content, type=KeyFile)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise KeyFileError(f"{where} is no file of keys: {error}") from error


def dump_keys(keys: KeyFile) -> bytes:
    """Write the file's bytes; ``parse_keys(dump_keys(k)) == k``."""
    return msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n"


def add_key(file: Path, key: Key) -> None:
    """Add one key, in a file that is made if it is not there.

    Raises:
        KeyFileError: The file cannot be read or written.
    """
    _replace(file, lambda keys: KeyFile(keys=(*keys.keys, key)), or_empty=True)


def remove_key(file: Path, id_: str) -> None:
    """Take one key out.

    Raises:
        KeyNotFoundError: There is none of this id.
        KeyFileError: The file cannot be read or written.
    """

    def without(keys: KeyFile) -> KeyFile:
        kept = tuple(key for key in keys.keys if key.id != id_)
        if len(kept) == len(keys.keys):
            raise KeyNotFoundError(f"{file} has no key {id_!r}; tidegate keys list shows them")
        return KeyFile(keys=kept)

    _replace(file, without)


def _replace(file: Path, change: Callable[[KeyFile], KeyFile], *, or_empty: bool = False) -> None:
    """Read, change and rename over it, while nobody else does; readers see the old or the new."""
    try:
        with lock_of(file, wait_ns=_LOCK_WAIT_NS), side_file(file.parent) as side:
            is_new = not file.exists()
            keys = change(KeyFile() if is_new and or_empty else load_keys(file))
            write_flushed(side, io.BytesIO(dump_keys(keys)))
            side.chmod(_ITS_OWNER_ALONE if is_new else file.stat().st_mode)
            name_over(side, file)
    except OSError as error:
        raise KeyFileError(
            f"{file} cannot be written: {error.strerror or error}. Its folder must exist and take "
            "new files, and nobody else be writing it."
        ) from error
