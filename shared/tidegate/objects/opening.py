"""From what a person writes to a store: which adapter, and which key in it."""

import os
import re
from pathlib import Path
from typing import Final
from urllib.request import url2pathname

from tidegate.errors import SettingError
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.port import InvalidKeyError, ObjectStore, check_key

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # one slash: "s3:/b" is a slip
_S3: Final = "s3://"
_FILE: Final = "file://"
_WILDCARD: Final = re.compile(r"[*?\[]")


def open_store(url: str) -> ObjectStore:
    """Open the store at ``s3://bucket/prefix``, at a folder's path or at ``file:///path``.

    A relative path starts at the current folder, ``~`` is the home folder. Nothing is created
    or asked yet: a folder appears with the first write, and S3 is reached by the first call.

    Raises:
        SettingError: The URL is not one of these, or its extra is not installed.
        StoreUnavailableError: The path is a file, or the AWS configuration cannot be used.
    """
    if not url.startswith(_S3):
        return LocalObjectStore(_path_of(url))
    bucket, _, prefix = url.removeprefix(_S3).partition("/")
    if not bucket:
        raise SettingError(f"{url!r} names no bucket. Write s3://BUCKET or s3://BUCKET/PREFIX.")
    try:
        from tidegate.objects.s3 import S3ObjectStore  # noqa: PLC0415 - boto3 is heavy, and an extra
    except ModuleNotFoundError as error:
        raise SettingError(
            f"{url} needs {error.name}, which is not installed: pip install 'tidegate[s3]'"
        ) from error
    try:
        return S3ObjectStore(bucket, prefix.rstrip("/"))
    except InvalidKeyError as error:
        raise SettingError(f"{url!r} is no store: {error}") from error


def open_existing_store(url: str) -> ObjectStore:
    """Open a store that is only to be read: a folder that is not there is mistyped, not empty.

    Raises:
        SettingError: As ``open_store`` does, or there is no such folder.
        StoreUnavailableError: As ``open_store`` does.
    """
    store = open_store(url)
    if isinstance(store, LocalObjectStore) and not os.path.exists(store.url):
        raise SettingError(
            f"there is no store at {store.url}: no such folder. Name the right one with --store, "
            "in tidegate.toml or as TIDEGATE_STORE; the first 'tidegate model publish' makes a new "
            "one"
        )
    return store


def split_url(url: str) -> tuple[str, str]:
    """Split the URL of objects into the URL of a store and a key in it.

    The key may hold wildcards, and a URL that ends in a slash gives a prefix (``""`` or one that
    ends in a slash)::

        s3://b/a/2024-*.parquet   ("s3://b", "a/2024-*.parquet")
        /x/data/rows.parquet      ("/x/data", "rows.parquet")
        /x/*/rows.parquet         ("/x", "*/rows.parquet")
        /x/data/                  ("/x/data", "")

    The store of a path is its deepest folder without a wildcard, links resolved: what a person
    names is followed wherever it leads, what lies below it is not. A path that exists as it is
    written has no wildcards.

    Raises:
        SettingError: The URL has another scheme, no bucket, or a key that no store can hold.
    """
    store, key = _split(url)
    try:
        if key:
            check_key(key.removesuffix("/"))
    except InvalidKeyError as error:
        raise SettingError(f"{url!r} names nothing that a store can hold: {error}") from error
    return store, key


def _split(url: str) -> tuple[str, str]:
    if url.startswith(_S3):
        bucket, _, key = url.removeprefix(_S3).partition("/")
        if not bucket:
            raise SettingError(f"{url!r} names no bucket. Write s3://BUCKET/KEY.")
        return _S3 + bucket, key
    path = _path_of(url)
    if url.endswith("/"):
        return str(path.resolve()), ""
    if path.exists() or not _WILDCARD.search(str(path)):
        real = path.resolve()
        return str(real.parent), real.name
    plain = next(folder for folder in path.parents if not _WILDCARD.search(str(folder)))
    return str(plain.resolve()), str(path.relative_to(plain))


def _path_of(url: str) -> Path:
    if url and not _SCHEME.match(url):
        return Path(url).expanduser()
    path = url.removeprefix(_FILE).removeprefix("localhost")
    if url.startswith(_FILE) and path.startswith("/"):
        return Path(url2pathname(path))
    raise SettingError(
        f"{url!r} is no place for objects. Write s3://BUCKET/PREFIX, the path of a folder, or "
        "file:///PATH."
    )
