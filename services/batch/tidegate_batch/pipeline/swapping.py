"""Compare-and-swap of one small record, with lost replies recognised by one's own write id."""

import secrets
from collections.abc import Callable

from tidegate.objects.port import ObjectStore, Written
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.records import Swapped, dump, load, signed


def read_record(store: ObjectStore, key: str, kind: type[Swapped]) -> Swapped | None:
    """Read a record; ``None`` if there is none."""
    stored = store.get(key)
    return load(kind, stored.body, where=f"{key} in {store.url}") if stored else None


def create(store: ObjectStore, key: str, record: Swapped) -> Swapped:
    """Write a record unless there is one, and return the one that stands there then."""
    first = signed(record, secrets.token_hex(16))
    if isinstance(store.put_if_absent(key, dump(first)), Written):
        return first
    return read_record(store, key, type(record)) or create(store, key, record)


def swap(
    store: ObjectStore, key: str, kind: type[Swapped], change: Callable[[Swapped], Swapped]
) -> Swapped:
    """Change a record, however many others change it at the same time.

    Args:
        store: Where it lies.
        key: Its key.
        kind: Its format.
        change: Computes the new record from the present one, or raises if the change makes no
            sense any more. It is called again whenever somebody else was quicker.

    Returns:
        The record with the change in it.

    Raises:
        JobRecordError: There is no such record; it is never deleted, so somebody did.
    """
    write_id = secrets.token_hex(16)
    while True:
        stored = store.get(key)
        if stored is None:
            raise JobRecordError(f"{key} is gone from {store.url}; it must never be deleted")
        now = load(kind, stored.body, where=f"{key} in {store.url}")
        if write_id in now.write_ids:  # an earlier try landed, and its reply was lost
            return now
        changed = signed(change(now), write_id)
        if isinstance(store.replace(key, dump(changed), etag=stored.etag), Written):
            return changed
