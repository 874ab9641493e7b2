"""Where a worker hears that its machine will be taken away: a file, or the cloud's metadata.

The third source, SIGTERM, belongs to the process and is in ``tidegate_batch.main.worker``. Each
is asked every two seconds, and answers within one: a cloud says it 30 s (Google) to 120 s
(Amazon) ahead.
"""

import http.client
import json
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidegate.clock import WallClock
from tidegate.errors import SettingError
from tidegate.units import NS_PER_SECOND
from tidegate_batch.ports import NoticeSetup, Preemption, PreemptionNotice

_TIMEOUT_S: Final = 1
_MOST_BYTES: Final = 4096
_FILE_LEFT_NS: Final = 120 * NS_PER_SECOND
"""Where a file does not say it: Amazon's two minutes."""
_GOOGLE_LEFT_NS: Final = 30 * NS_PER_SECOND
_TOKEN_TTL_S: Final = 21_600
"""The longest that Amazon grants."""


class FileNotice:
    """A file that somebody writes: a daemon of the cluster, or a person.

    It may hold the seconds that are left.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def look(self) -> Preemption | None:
        """Look whether the file is there."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")[:_MOST_BYTES].strip()
        except OSError:
            return None
        left_ns = _FILE_LEFT_NS
        if text.isdecimal():
            left_ns = int(text[:9]) * NS_PER_SECOND
        return Preemption(left_ns=left_ns, reason=f"{self._path} is there")


class AmazonNotice:
    """EC2's spot interruption notice, by version 2 of the metadata service (with a token)."""

    def __init__(self, address: str, wall: WallClock) -> None:
        self._address = address
        self._wall = wall
        self._token = ""

    def look(self) -> Preemption | None:
        """Ask for the planned action; 404 means that there is none.

        The form: docs.aws.amazon.com, "Spot Instance interruption notices".
        """
        found = self._ask()
        if found is None:
            return None
        try:
            action = json.loads(found)
            at = datetime.fromisoformat(str(action["time"]))
            what = str(action["action"])
        except (ValueError, KeyError, TypeError):
            return None
        left_ns = int((at - self._wall.utc_now()).total_seconds() * NS_PER_SECOND)
        return Preemption(left_ns=max(0, left_ns), reason=f"Amazon will {what[:40]} this instance")

    def _ask(self) -> bytes | None:
        for _ in range(2):
            if not self._token:
                headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
                _, token = _asked(self._address, "PUT", "/latest/api/token", headers)
                self._token = token.decode("latin-1").strip()
            status, body = _asked(
                self._address,
                "GET",
                "/latest/meta-data/spot/instance-action",
                {"X-aws-ec2-metadata-token": self._token},
            )
            if status == http.HTTPStatus.UNAUTHORIZED:  # the token is too old: one more try
                self._token = ""
                continue
            return body if status == http.HTTPStatus.OK else None
        return None


class GoogleNotice:
    """Compute Engine's ``preempted``, which turns TRUE some 30 s before the end."""

    def __init__(self, address: str) -> None:
        self._address = address

    def look(self) -> Preemption | None:
        """Ask whether this instance was preempted.

        The form: cloud.google.com/compute/docs, "Detect if a VM was preempted".
        """
        status, body = _asked(
            self._address,
            "GET",
            "/computeMetadata/v1/instance/preempted",
            {"Metadata-Flavor": "Google"},
        )
        if status != http.HTTPStatus.OK or body.strip().upper() != b"TRUE":
            return None
        return Preemption(left_ns=_GOOGLE_LEFT_NS, reason="Google has preempted this instance")


def notices_of(setup: NoticeSetup, wall: WallClock) -> list[PreemptionNotice]:
    """Return the sources that the settings name; maybe none."""
    notices: list[PreemptionNotice] = []
    if setup.file is not None:
        notices.append(FileNotice(Path(setup.file)))
    if setup.cloud == "aws":
        notices.append(AmazonNotice(checked_address(setup.address), wall))
    elif setup.cloud == "gcp":
        notices.append(GoogleNotice(checked_address(setup.address)))
    return notices


def checked_address(address: str) -> str:
    """Return the address of a metadata service if it is one.

    Raises:
        SettingError: It is no ``http://HOST`` or ``http://HOST:PORT``.
    """
    try:
        parts = urlsplit(address)
        is_one = parts.scheme == "http" and bool(parts.hostname) and parts.path in {"", "/"}
        _ = parts.port
    except ValueError:
        is_one = False
    if not is_one:
        raise SettingError(
            f"batch.preemption_address is {address!r}, which is no address of a metadata service. "
            "Write http://HOST or http://HOST:PORT."
        )
    return address


def _asked(address: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Ask the metadata service; ``(0, b"")`` if nobody answers in time."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read(_MOST_BYTES)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
