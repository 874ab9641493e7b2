"""Noticing that somebody wrote into a file while it was read."""

from tidegate.objects.port import ObjectChangedError, ObjectStore


def confirm(store: ObjectStore, key: str, etag: str) -> None:
    """Make sure that nobody wrote into a file while it was read.

    On S3 every read names the etag; a file on a disk can be changed in place.

    Raises:
        ObjectChangedError: Somebody did.
    """
    if store.local_path(key) is None:
        return
    head = store.head(key)
    if head is None or head.etag != etag:
        raise ObjectChangedError.of_object(key, url=store.url, expected=etag)
