"""Names for requests, so that a caller and an operator can speak of the same one."""

import re
from itertools import count
from typing import Final

_ACCEPTED: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestIds:
    """Takes the caller's name where it is one, else makes a new one."""

    def __init__(self, prefix: str) -> None:
        """Start counting.

        Args:
            prefix: Random, so that ids of two processes differ. A counter behind it costs a tenth
                of a random id for each request.
        """
        self._prefix = prefix
        self._numbers = count(1)

    def choose(self, *candidates: str | None) -> str:
        """Return the first candidate that is accepted, else a new id.

        Accepted are 1 to 128 characters of ``A-Z a-z 0-9 . _ : -``: whatever else came in a
        header would go out in one.
        """
        for candidate in candidates:
            if candidate and _ACCEPTED.fullmatch(candidate):
                return candidate
        return f"{self._prefix}-{next(self._numbers)}"
