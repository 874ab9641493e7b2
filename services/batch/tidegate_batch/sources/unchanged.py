"""Noticing that somebody wrote into a file while it was read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.errors import JobError
from tidegate.objects.port import ObjectChangedError, ObjectStore, StoreUnavailableError


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


@contextmanager
def confirming(confirm: Callable[[], None], *, or_else: Callable[[], None]) -> Iterator[None]:
    """Confirm a file once a range of it has been read, and leave none open that failed.

    Args:
        confirm: Raises if somebody wrote into it. Asked as well of what cannot be read: it may be
            what somebody is writing just now.
        or_else: Closes it: nobody knows how far it was read, so the next try opens it anew.
    """
    try:
        yield
    except JobError:
        or_else()
        confirm()
        raise
    except StoreUnavailableError:
        or_else()
        raise
    confirm()
