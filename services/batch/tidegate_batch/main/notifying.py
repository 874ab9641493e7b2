"""How a URL is told of a job's end: over the standard library, without following it elsewhere."""

import os
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

from tidegate.errors import SettingError

SECRET_VARIABLE: Final = "TIDEGATE_WEBHOOK_SECRET"
_TIMEOUT_S: Final = 10.0


def webhook_secret(file: Path | None) -> bytes | None:
    """Return what messages are signed with: of the environment, else of the file.

    Raises:
        SettingError: The file cannot be read.
    """
    if secret := os.environ.get(SECRET_VARIABLE):
        return secret.encode()
    if file is None:
        return None
    try:
        return file.read_bytes().strip()
    except OSError as error:
        raise SettingError(
            f"batch.webhook_secret_file {file} cannot be read: {error.strerror}"
        ) from error


class _StayThere(urllib.request.HTTPRedirectHandler):
    """Whoever was named is told, and nobody that he names."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_StayThere)


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a message; see ``notifying.Post``."""
    try:
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        with _OPENER.open(request, timeout=_TIMEOUT_S) as reply:
            status: int = reply.status
            return status
    except HTTPError as error:
        return error.code
    except (HTTPException, ValueError) as error:  # no HTTP came back, or the URL is impossible
        raise OSError(type(error).__name__) from error  # its text may hold the URL
