"""The commit protocol with one rule taken out, as a build without it would call the store.

Each breaks just one rule of ``docs/batch.md``. None is ever used but to show that a test fails.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.fakes.objects import FaultyObjectStore
from tidegate.objects.port import ObjectStore, Refused, StoredObject, Written
from tidegate_batch.core.names import MANIFEST_KEY, OWNER_KEY, SIDE_PREFIX, SUCCESS_KEY, JobId

_COMMIT: Final = re.compile(r"jobs/.*/commits/")
_ETAG: Final = "not looked at"


class CommitsByPut(FaultyObjectStore):
    """Writes a commit over another's, instead of only where none is."""

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        head = self._inner.head(key) if _COMMIT.match(key) else None
        if head is None or isinstance(body, Path):
            return self._inner.put_if_absent(key, body)
        return self._inner.replace(key, body, etag=head.etag)


class DeletesByPrefix(FaultyObjectStore):
    """Removes all attempts of a chunk, instead of its own."""

    def delete(self, key: str) -> None:
        chunk, dot, _ = key.partition(".")
        for attempt in list(self._inner.keys(chunk + dot)):
            self._inner.delete(attempt)


class SwapsWithoutEtag(FaultyObjectStore):
    """Replaces a record whatever stands there by now."""

    def __init__(self, inner: ObjectStore, *, name: str) -> None:
        super().__init__(inner)
        self._name = name

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        head = self._inner.head(key)
        if head is None or not key.endswith(self._name):
            return self._inner.replace(key, body, etag=etag)
        return self._inner.replace(key, body, etag=head.etag)


class CopiesWithoutEtag(FaultyObjectStore):
    """Copies whatever stands at the source by now."""

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        head = self._inner.head(source)
        return self._inner.copy(source, target, etag=head.etag) if head else Refused()


class TakesConflictForExists(FaultyObjectStore):
    """Reads "it is there" into an answer that only says that nothing was written."""

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        self._inner.put_if_absent(key, body)
        return Written(etag=_ETAG)


class IgnoresOwner(FaultyObjectStore):
    """Takes every output for its own."""

    def __init__(self, inner: ObjectStore, *, job: JobId) -> None:
        super().__init__(inner)
        self._owner = json.dumps(
            {"schema": 1, "job": job, "store": "", "revision": 1, "write_ids": []}
        )

    def get(self, key: str) -> StoredObject | None:
        if key != OWNER_KEY or self._inner.get(key) is None:
            return self._inner.get(key)
        return StoredObject(etag=_ETAG, body=self._owner.encode())

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        if key != OWNER_KEY:
            return self._inner.replace(key, body, etag=etag)
        return Written(etag=_ETAG)

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        written = self._inner.put_if_absent(key, body)
        return Written(etag=_ETAG) if key == OWNER_KEY else written


class TakesOverWithoutSuperseding(FaultyObjectStore):
    """Leaves the former job as it was, ready to be resumed."""

    def __init__(self, inner: ObjectStore, *, former: JobId) -> None:
        super().__init__(inner)
        self._former = former

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        if f"/{self._former}/" in key:
            return Written(etag=_ETAG)
        return self._inner.replace(key, body, etag=etag)


class CleansUpBeforeTheManifest(FaultyObjectStore):
    """Removes attempts when their copies stand, before the job is committed."""

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        if key == MANIFEST_KEY:
            for attempt in list(self._attempts()):
                self._inner.delete(attempt)
        return self._inner.put_if_absent(key, body)

    def _attempts(self) -> Iterator[str]:
        return (key for key in self._inner.keys(SIDE_PREFIX) if key.endswith(".attempt"))


class SucceedsBeforeTheManifest(FaultyObjectStore):
    """Tells readers to begin before it says what there is to read."""

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        if key == MANIFEST_KEY:
            self._inner.put_if_absent(SUCCESS_KEY, b"")
        return self._inner.put_if_absent(key, body)


class ForgetsItsWrites(FaultyObjectStore):
    """Does not recognise its own write when the reply to it was lost."""

    def get(self, key: str) -> StoredObject | None:
        stored = self._inner.get(key)
        if stored is None or not key.endswith("state.json"):
            return stored
        state = {**json.loads(stored.body), "write_ids": []}
        return StoredObject(etag=stored.etag, body=json.dumps(state).encode())
