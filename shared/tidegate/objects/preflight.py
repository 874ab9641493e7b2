"""Asking a store, before anything depends on it, whether it honours conditional writes."""

import re
import secrets
from typing import Final

from tidegate.objects.port import ObjectStore, Refused, StoreUnavailableError

PROBE_KEY: Final = re.compile(r"preflight-[0-9a-f]{16}")
"""What a check that is killed, or that runs just now, may show to others."""
_WRONG_ETAG: Final = '"00000000000000000000000000000000"'


def check_conditional_writes(store: ObjectStore) -> None:
    """Make two writes that must be refused, then remove the probe.

    A store that ignores the conditions answers every write with success: two publishers would
    each believe that they had won.

    Raises:
        StoreUnavailableError: It ignores a condition, or cannot be reached, read or written.
    """
    key = f"preflight-{secrets.token_hex(8)}"
    store.put_if_absent(key, b"first")
    try:
        if not isinstance(store.put_if_absent(key, b"second"), Refused):
            raise _ignored(store, condition="If-None-Match")
        if not isinstance(store.replace(key, b"third", etag=_WRONG_ETAG), Refused):
            raise _ignored(store, condition="If-Match")
    finally:
        store.delete(key)


def _ignored(store: ObjectStore, *, condition: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{store.url} ignores {condition}: it overwrote an object that it had to keep, so two "
        "writers would destroy each other's work. Use Amazon S3, a store that documents "
        "conditional writes, or a folder; or upgrade this one."
    )
