"""Telling a URL that a job has ended, so that the URL can know who told it.

The body is what ``tidegate batch status --json`` prints, on one line. The header
``Tidegate-Signature: t=<seconds>,v1=<hex>`` holds HMAC-SHA256 of ``<seconds>.<body>`` under a
secret that both sides know. Whoever checks it refuses old times too, so that nobody can send a
message again. The secret is of the environment or a file, and stands in no record.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Collection
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from tidegate.errors import SettingError
from tidegate.observability import get_logger
from tidegate.units import NS_PER_SECOND
from tidegate_batch.core.names import job_prefix
from tidegate_batch.core.states import ENDED
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.watching import JobStatus, status_of

_log = get_logger(__name__)
SIGNATURE_HEADER: Final = "Tidegate-Signature"
_TRIES: Final = 5
"""With 1, 2, 4 and 8 s between them: long enough for a restart of what listens."""
_SENDABLE: Final = re.compile(r"[!-~]+")
_ORIGIN: Final = re.compile(r"https?://[^/?#]*")
"""All that a log may name: the rest of a chat's hook is its secret."""

Post: TypeAlias = Callable[[str, bytes, dict[str, str]], int]
"""Sends a body with headers to a URL and returns the status; raises ``OSError``."""


def sign(body: bytes, *, secret: bytes, at_s: int) -> str:
    """Return the header's value for a body that is sent at this time, in seconds since 1970."""
    signed = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256)
    return f"t={at_s},v1={signed.hexdigest()}"


def check_notify_url(url: str) -> str:
    """Return the URL if a job may be asked to tell it of its end.

    Raises:
        SettingError: It is no ``http`` or ``https`` URL that can be sent as it is, or holds
            credentials, which every reader of the job's record would see.
    """
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port  # as whoever sends will
    except ValueError as error:  # an impossible port, bracket or name
        raise SettingError(f"{url!r} cannot be told: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise SettingError(f"{url!r} cannot be told: write http://HOST/PATH or https://HOST/PATH")
    if not _SENDABLE.fullmatch(url):
        raise SettingError(f"{url!r} cannot be told: write %XX for what is not ASCII, and %20")
    if parts.username is not None or parts.password is not None:
        raise SettingError(
            "the URL to tell holds credentials, and the job's record would show them. Check the "
            f"header {SIGNATURE_HEADER} instead."
        )
    return url


def may_be_told(url: str, hosts: Collection[str]) -> bool:
    """Say whether a checked URL leads to one of these hosts; ``host:port`` is that port alone."""
    parts = urlsplit(url)
    return not {parts.hostname, parts.netloc.lower()}.isdisjoint(name.lower() for name in hosts)


def notify_of_end(record: JobRecord, parts: Parts, *, post: Post, secret: bytes | None) -> None:
    """Tell whom the job names that it has ended; nothing if it has not, or was told already.

    A failure to tell is logged and never fails the job.
    """
    url, state = record.spec().wishes.notify, record.state()
    if url is None or state is None or state.state not in ENDED:
        return
    told = f"{job_prefix(record.job)}told/{state.revision}"
    if record.store.head(told) is not None:
        return
    if not secret:  # an empty one would sign what anybody can
        _log.error("not_notified", job_id=record.job, reason="there is no secret to sign with")
    elif _tell(url, status_of(record), parts, post=post, secret=secret):
        record.store.put_if_absent(told, b"")
        _log.info("notified", job_id=record.job, state=state.state)


def _tell(url: str, status: JobStatus, parts: Parts, *, post: Post, secret: bytes) -> bool:
    body, reason = msgspec.json.encode(status), ""
    for attempt in range(_TRIES):
        if attempt:
            parts.pause(NS_PER_SECOND << (attempt - 1))
        at_s = int(parts.wall.utc_now().timestamp())
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(body, secret=secret, at_s=at_s),
        }
        try:
            answered = post(url, body, headers)
        except OSError as error:
            reason = str(error)
            continue
        if 200 <= answered < 300:  # noqa: PLR2004 - HTTP's own: the message was taken
            return True
        reason = f"it answered {answered}"
    where = origin[0] if (origin := _ORIGIN.match(url)) else ""
    _log.error("not_notified", job_id=status.job, where=where, tries=_TRIES, reason=reason)
    return False
