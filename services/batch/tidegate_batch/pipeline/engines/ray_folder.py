"""The folder that Ray works in: short-lived, marked as ours, and removed at last by somebody.

A driver removes its own. One that was killed cannot, so each start removes those whose driver is
surely gone.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tidegate_batch.core.records import Driver, dump
from tidegate_batch.pipeline.engines.last_words import last_words
from tidegate_batch.pipeline.identity import is_surely_gone, this_process

_PREFIX: Final = "tg-"
_MARKER: Final = "tidegate-driver.json"
_LONGEST_BASE: Final = 30
"""Characters; the path of a socket in it may have 107, and Ray adds about 70."""


def make_folder() -> Path:
    """Make a folder for this process, and remove those of processes that are gone."""
    base = tempfile.gettempdir()
    base = base if len(base) <= _LONGEST_BASE else "/tmp"
    for folder in Path(base).glob(f"{_PREFIX}*"):
        if _is_left_over(folder):
            remove_folder(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    (folder / _MARKER).write_bytes(dump(this_process()))
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it; what somebody still holds on to may stay."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_left_over(folder: Path) -> bool:
    """Say whether a folder is this user's, bears our mark, and its process has ended."""
    try:
        is_own = not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
        return is_own and is_surely_gone(
            msgspec.json.decode((folder / _MARKER).read_bytes(), type=Driver)
        )
    except (OSError, msgspec.MsgspecError):  # not ours, or being made or removed just now
        return False


def last_words_of(folder: Path, pid: int) -> str:
    """Return what one of Ray's worker processes wrote last."""
    for log in folder.glob(f"session_*/logs/worker-*-{pid}.err"):
        with suppress(OSError), log.open("rb") as stderr:
            return last_words(stderr)
    return ""
