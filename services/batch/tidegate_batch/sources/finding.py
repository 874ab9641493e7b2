"""From what a person names (a file, a folder, a glob, a prefix) to the files that are meant.

One rule for disk and S3: a folder, or a prefix that ends in ``/``, means every file of the right
kind below it; in a glob ``*``, ``?`` and ``[…]`` stay within a segment and ``**`` spans any number
of them. Names that begin with ``.`` or ``_`` are meant only where the pattern says so itself, as
in Spark and pyarrow: they are side files, not rows. Any other file below a folder that does not
have the ending is left out, and a line of the log says so. On disk only folders that can hold a
match are looked into, and only links that match are followed.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.objects.opening import split_url
from tidegate.objects.port import ObjectHead, ObjectStore
from tidegate.observability import get_logger
from tidegate_batch.core.patterns import leads_on, matches, plain_start
from tidegate_batch.ports import FoundInput, Stores

_log = get_logger(__name__)
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
    elif (start := plain_start(key)) != key and not store.head(key):
        folder = start[: start.rfind("/") + 1]
        keys = _below(store, folder, key.removeprefix(folder).split("/"))
    else:
        keys = [key]
    return [_found(store, head) for head in _heads(store, keys) if head]


def _below(store: ObjectStore, folder: str, pattern: Sequence[str]) -> list[str]:
    def is_wanted(key: str) -> bool:
        *folders, name = key.removeprefix(folder).split("/")
        return matches([*folders, name], pattern) if name else leads_on(folders, pattern)

    return list(store.keys(folder + plain_start(pattern[0]), is_wanted))


def _of_kind(suffix: str | tuple[str, ...], keys: Sequence[str], *, pattern: str) -> list[str]:
    """Choose by the ending, and name what is left out: it may be rows under another ending."""
    others = [key for key in keys if not key.endswith(suffix)]
    if others:
        _log.warning("files_not_read", input=pattern, files=len(others), first=others[0])
    return [key for key in keys if key.endswith(suffix)]


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
