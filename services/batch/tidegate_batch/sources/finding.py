"""From what a person names (a file, a folder, a glob, a prefix) to the files that are meant.

One rule for disk and S3: a folder, or a prefix that ends in ``/``, means every file of the right
kind below it; in a glob ``*``, ``?`` and ``[…]`` stay within a segment and ``**`` spans any number
of them. Names that begin with ``.`` or ``_`` are meant only where the pattern says so itself, as
in Spark and pyarrow: they are side files, not rows. Any other file below a folder that does not
have the ending is left out, and a line of the log says so. On disk only folders that can hold a
match are looked into, and only links that match are followed.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Final

from tidegate.objects.local import LocalObjectStore
from tidegate.objects.opening import split_url
from tidegate.objects.port import ObjectHead, ObjectStore
from tidegate.observability import get_logger
from tidegate_batch.ports import FoundInput, Stores

_log = get_logger(__name__)
_WILD: Final = frozenset("*?[")
_PLAIN: Final = re.compile(r"[^*?\[]*")
_CONCURRENT_HEADS: Final = 16
"""Asking for 10,000 objects one by one would take minutes where a reply takes 20 ms."""


def find_files(pattern: str, *, suffix: str | tuple[str, ...], stores: Stores) -> list[FoundInput]:
    """List what a pattern means, sorted by key.

    Args:
        pattern: As written; a relative path starts at the current folder.
        suffix: What the names of files below a folder end in, such as ``.parquet``; or several.
        stores: Opens the object store that the files lie in.

    Raises:
        SettingError: The pattern is no path and no URL of a store.
        StoreUnavailableError: The store could not be asked.
    """
    is_folder = "://" not in pattern and os.path.isdir(os.path.expanduser(pattern))
    url, key = split_url(f"{pattern}/" if is_folder else pattern)
    store = stores(url)
    if key == "" or key.endswith("/"):
        keys = _of_kind(suffix, _below(store, key, ["**", "*"]), pattern=pattern)
    elif _is_wild(key) and not store.head(key):
        folder = _plain_folder(key)
        keys = _below(store, folder, key.removeprefix(folder).split("/"))
    else:
        keys = [key]
    return [_found(store, head) for head in _heads(store, keys) if head]


def _below(store: ObjectStore, folder: str, pattern: Sequence[str]) -> list[str]:
    def is_wanted(key: str) -> bool:
        *folders, name = key.removeprefix(folder).split("/")
        return _matches([*folders, name], pattern) if name else _leads_on(folders, pattern)

    if isinstance(store, LocalObjectStore):
        return list(store.keys(folder, is_wanted))
    plain = _PLAIN.match(pattern[0])  # a flat space of keys has no folders to pass by
    return list(filter(is_wanted, store.keys(folder + (plain[0] if plain else ""))))


def _of_kind(suffix: str | tuple[str, ...], keys: Sequence[str], *, pattern: str) -> list[str]:
    """Choose by the ending, and name what is left out: it may be rows under another ending."""
    others = [key for key in keys if not key.endswith(suffix)]
    if others:
        _log.warning("files_not_read", input=pattern, files=len(others), first=others[0])
    return [key for key in keys if key.endswith(suffix)]


def _plain_folder(key: str) -> str:
    """Return what stands before the first segment with a wildcard, with its slash."""
    segments = key.split("/")
    wild_at = next(place for place, segment in enumerate(segments) if _is_wild(segment))
    return "".join(f"{segment}/" for segment in segments[:wild_at])


def _is_wild(text: str) -> bool:
    return bool(_WILD & set(text))


def _matches(segments: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not segments
    if pattern[0] == "**":
        return _matches(segments, pattern[1:]) or (
            bool(segments) and _fits(segments[0], "*") and _matches(segments[1:], pattern)
        )
    return bool(segments) and _fits(segments[0], pattern[0]) and _matches(segments[1:], pattern[1:])


def _leads_on(folders: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether something below these folders could match."""
    if not folders or not pattern:
        return bool(pattern)
    if pattern[0] == "**":
        return _leads_on(folders, pattern[1:]) or (
            _fits(folders[0], "*") and _leads_on(folders[1:], pattern)
        )
    return _fits(folders[0], pattern[0]) and _leads_on(folders[1:], pattern[1:])


def _fits(segment: str, pattern: str) -> bool:
    is_side_file = segment[0] in "._" and segment[0] != pattern[0]
    return not is_side_file and fnmatchcase(segment, pattern)


def _heads(store: ObjectStore, keys: Sequence[str]) -> list[ObjectHead | None]:
    with ThreadPoolExecutor(_CONCURRENT_HEADS) as threads:
        return list(threads.map(store.head, keys))


def _found(store: ObjectStore, head: ObjectHead) -> FoundInput:
    return FoundInput(
        source=f"{store.url.rstrip('/')}/{head.key}",
        store=store.url,
        key=head.key,
        etag=head.etag,
        size_bytes=head.size_bytes,
    )
