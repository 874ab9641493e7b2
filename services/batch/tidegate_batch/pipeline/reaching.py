"""Whether the stores that inputs lie in answer at all, told within seconds."""

import queue
import threading
from collections.abc import Iterable
from typing import Final, TypeAlias

from tidegate.objects.opening import split_url
from tidegate.objects.port import StoreUnavailableError
from tidegate.units import NS_PER_SECOND, Nanoseconds, ns_to_seconds
from tidegate_batch.core.patterns import plain_start
from tidegate_batch.ports import Stores

REACH_LIMIT_NS: Final = Nanoseconds(10 * NS_PER_SECOND)
"""A client's own retries take half a minute where a server accepts calls and never answers."""
_Answers: TypeAlias = "queue.SimpleQueue[tuple[str, Exception | None]]"


def reach_inputs(
    patterns: Iterable[str], *, stores: Stores, limit_ns: Nanoseconds = REACH_LIMIT_NS
) -> None:
    """Ask for every input once, all at the same time; nothing need be there.

    Raises:
        StoreUnavailableError: Some are away, refuse the credentials or do not answer in time; the
            message names all of them.
    """
    left = dict.fromkeys(patterns)
    answers: _Answers = queue.SimpleQueue()
    for pattern in left:
        # a daemon: nobody waits at the end for a call that may never come back
        threading.Thread(target=_ask, args=(pattern, stores, answers), daemon=True).start()
    told = []
    try:
        while left:
            pattern, error = answers.get(timeout=ns_to_seconds(limit_ns))
            del left[pattern]
            told += [str(error)] if isinstance(error, StoreUnavailableError) else []
    except queue.Empty:
        seconds = ns_to_seconds(limit_ns)
        told += [
            f"{pattern}: its store did not answer within {seconds:g} s. Check the network, "
            "AWS_ENDPOINT_URL and AWS_REGION."
            for pattern in left
        ]
    if told:
        raise StoreUnavailableError("\n  ".join(told))


def _ask(pattern: str, stores: Stores, answers: _Answers) -> None:
    """Ask just what finding the files will ask, since no more may be allowed."""
    try:
        url, key = split_url(pattern)
        store = stores(url)
        prefix = plain_start(key)
        if key == "" or key.endswith("/") or prefix != key:
            is_local = store.local_path("_") is not None
            next(iter(() if is_local else store.keys(prefix)), None)
        else:
            store.head(key)
    except Exception as error:  # it did answer: what is wrong besides, finding the files will tell
        answers.put((pattern, error))
    else:
        answers.put((pattern, None))
