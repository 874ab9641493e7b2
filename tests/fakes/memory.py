"""An object store in this process's memory, as strict as the strictest real one."""

import hashlib
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tidegate.objects.port import (
    ObjectChangedError,
    ObjectHead,
    Refused,
    StoredObject,
    Wanted,
    Written,
    check_key,
    check_prefix,
    everything,
    usable_keys,
)


class MemoryObjectStore:
    """The objects of one dictionary whose names begin with the store's URL.

    Args:
        url: ``memory://bucket`` or ``memory://bucket/prefix``.
        objects: Shared by all stores of one imagined server; by full name.
    """

    def __init__(self, url: str, objects: dict[str, bytes]) -> None:
        self._url = url
        self._objects = objects
        self._one_call = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    def head(self, key: str) -> ObjectHead | None:
        body = self._objects.get(self._full(key))
        if body is None:
            return None
        return ObjectHead(key=key, etag=_etag(body), size_bytes=len(body))

    def get(self, key: str) -> StoredObject | None:
        body = self._objects.get(self._full(key))
        return None if body is None else StoredObject(etag=_etag(body), body=body)

    def open(self, key: str, *, etag: str) -> BinaryIO:
        body = self._objects.get(self._full(key))
        if body is None or _etag(body) != etag:
            raise ObjectChangedError.of_object(key, url=self._url, expected=etag)
        return io.BytesIO(body)

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        full = self._full(key)
        content = body.read_bytes() if isinstance(body, Path) else body
        with self._one_call:
            if full in self._objects:
                return Refused()
            self._objects[full] = content
        return Written(etag=_etag(content))

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        full = self._full(key)
        with self._one_call:
            there = self._objects.get(full)
            if there is None or _etag(there) != etag:
                return Refused()
            self._objects[full] = body
        return Written(etag=_etag(body))

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        origin, full = self._full(source), self._full(target)
        with self._one_call:
            there = self._objects.get(origin)
            if there is None or _etag(there) != etag:
                return Refused()
            self._objects[full] = there
        return Written(etag=etag)

    def delete(self, key: str) -> None:
        self._objects.pop(self._full(key), None)

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        start = f"{self._url}/"
        begin = start + check_prefix(prefix)
        names = [full for full in self._objects if full.startswith(begin)]
        keys = (name.removeprefix(start) for name in sorted(names, key=str.encode))
        return filter(wanted, usable_keys(keys, url=self._url))

    def folders(self, prefix: str) -> Iterator[str]:
        begin = len(check_prefix(prefix))
        below = ((key, key.find("/", begin)) for key in self.keys(prefix))
        return iter(dict.fromkeys(key[: end + 1] for key, end in below if end >= 0))

    def local_path(self, key: str) -> None:
        check_key(key)

    def _full(self, key: str) -> str:
        return f"{self._url}/{check_key(key)}"


def _etag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]
